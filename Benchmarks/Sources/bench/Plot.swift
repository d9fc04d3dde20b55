import Foundation

/// Curves on logarithmic axes, as an SVG for light and dark backgrounds.
struct Plot: Sendable {
    struct Series: Sendable {
        let name: String
        let points: [(x: Double, y: Double)]
    }

    /// The file name without folder and extension.
    let file: String
    let title: String
    let x: String
    let y: String
    let series: [Series]

    private static let (width, height) = (720.0, 400.0)
    private static let (left, right, top, bottom) = (64.0, 696.0, 40.0, 352.0)
    private static let colours = ["#1f77b4", "#d95f02", "#2a9d58", "#b8559f"]

    var svg: String {
        let points = series.flatMap(\.points)
        let exponents = points.map { log10($0.y) }
        let (low, high) = (
            (exponents.min() ?? 0).rounded(.down), (exponents.max() ?? 1).rounded(.up)
        )
        let (first, last) = (
            log10(points.map(\.x).min() ?? 1), log10(points.map(\.x).max() ?? 10)
        )
        func across(_ value: Double) -> Double {
            Self.left + (log10(value) - first) / max(last - first, 0.1) * (Self.right - Self.left)
        }
        func up(_ value: Double) -> Double {
            Self.bottom - (log10(value) - low) / max(high - low, 0.1) * (Self.bottom - Self.top)
        }
        var lines = [
            """
            <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(Int(Self.width)) \(Int(Self.height))" role="img">
            <title>\(title)</title>
            <style>
            text { font: 12px system-ui, sans-serif; fill: #24292f }
            line { stroke: #d0d7de } polyline { fill: none; stroke-width: 2 }
            @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } line { stroke: #30363d } }
            </style>
            """,
            Self.text(Self.width / 2, 20, "middle", title),
            Self.text(Self.width / 2, Self.height - 8, "middle", x),
            Self.text(8, Self.top - 12, "start", y),
        ]
        for value in stride(from: low, through: high, by: 1).map({ pow(10, $0) }) {
            lines.append(Self.line((Self.left, up(value)), (Self.right, up(value))))
            lines.append(Self.text(Self.left - 8, up(value) + 4, "end", Self.mark(value)))
        }
        for value in Set(points.map(\.x)).sorted() {
            lines.append(Self.line((across(value), Self.bottom), (across(value), Self.bottom + 5)))
            lines.append(Self.text(across(value), Self.bottom + 19, "middle", Self.mark(value)))
        }
        for (index, curve) in series.enumerated() {
            let colour = Self.colours[index % Self.colours.count]
            let places = curve.points.map { (across($0.x), up($0.y)) }
            let path = places.map { "\($0.text(1)),\($1.text(1))" }.joined(separator: " ")
            lines.append("<polyline points=\"\(path)\" stroke=\"\(colour)\"/>")
            lines += places.map {
                "<circle cx=\"\($0.text(1))\" cy=\"\($1.text(1))\" r=\"3\" fill=\"\(colour)\"/>"
            }
            let row = Self.top + 14 + Double(index) * 18
            lines.append(
                "<circle cx=\"\(Self.left + 22)\" cy=\"\(row - 4)\" r=\"4\" fill=\"\(colour)\"/>")
            lines.append(Self.text(Self.left + 38, row, "start", curve.name))
        }
        return (lines + ["</svg>", ""]).joined(separator: "\n")
    }

    private static func line(_ from: (Double, Double), _ to: (Double, Double)) -> String {
        "<line x1=\"\(from.0.text(1))\" y1=\"\(from.1.text(1))\" x2=\"\(to.0.text(1))\" y2=\"\(to.1.text(1))\"/>"
    }

    private static func text(_ x: Double, _ y: Double, _ anchor: String, _ text: String) -> String {
        "<text x=\"\(x.text(1))\" y=\"\(y.text(1))\" text-anchor=\"\(anchor)\">\(text)</text>"
    }

    /// A number without trailing zeros.
    private static func mark(_ number: Double) -> String {
        number >= 1000 ? "\(Int(number / 1000))k" : String(format: "%g", number)
    }
}
