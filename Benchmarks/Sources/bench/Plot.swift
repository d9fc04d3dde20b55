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

    private static let width = 720.0
    private static let height = 400.0
    private static let margins = (left: 64.0, right: 24.0, top: 40.0, bottom: 48.0)
    private static let colours = ["#1f77b4", "#d95f02", "#2a9d58", "#b8559f"]

    var svg: String {
        let points = series.flatMap(\.points)
        let (across, up) = (
            Scale(points.map(\.x), isTight: true), Scale(points.map(\.y), isTight: false)
        )
        let marks = Set(points.map(\.x)).sorted()
        var lines = [Self.head(title)]
        for value in up.decades {
            let place = Self.vertical(up, value)
            lines.append(
                Self.line(Self.margins.left, place, Self.width - Self.margins.right, place, "grid"))
            lines.append(Self.text(Self.margins.left - 8, place + 4, "end", Decimals.mark(value)))
        }
        for value in marks {
            let place = Self.horizontal(across, value)
            lines.append(
                Self.line(
                    place, Self.height - Self.margins.bottom, place,
                    Self.height - Self.margins.bottom + 5, "axis"))
            lines.append(
                Self.text(
                    place, Self.height - Self.margins.bottom + 19, "middle", Decimals.mark(value)))
        }
        lines.append(Self.text(Self.width / 2, Self.height - 8, "middle", x))
        lines.append(Self.text(8, Self.margins.top - 12, "start", y))
        for (index, curve) in series.enumerated() {
            let colour = Self.colours[index % Self.colours.count]
            let places = curve.points.map {
                (Self.horizontal(across, $0.x), Self.vertical(up, $0.y))
            }
            let path = places.map { "\(Decimals.format($0, 1)),\(Decimals.format($1, 1))" }.joined(
                separator: " ")
            lines.append(
                "<polyline points=\"\(path)\" fill=\"none\" stroke=\"\(colour)\" stroke-width=\"2\"/>"
            )
            lines += places.map {
                "<circle cx=\"\(Decimals.format($0, 1))\" cy=\"\(Decimals.format($1, 1))\" r=\"3\" fill=\"\(colour)\"/>"
            }
            lines.append(Self.legend(index, curve.name, colour))
        }
        return (lines + ["</svg>", ""]).joined(separator: "\n")
    }

    // MARK: Coordinates

    /// The powers of ten around all values.
    private struct Scale {
        let first: Double
        let last: Double
        let decades: [Double]

        init(_ values: [Double], isTight: Bool) {
            let logarithms = values.map { log10(max($0, 1e-9)) }
            let (least, most) = (logarithms.min() ?? 0, logarithms.max() ?? 1)
            first = isTight ? least : floor(least)
            last = max(isTight ? most : ceil(most), first + 0.1)
            decades = stride(from: ceil(first), through: last, by: 1).map { pow(10, $0) }
        }

        /// The position on the axis, from 0 to 1.
        func place(_ value: Double) -> Double { (log10(max(value, 1e-9)) - first) / (last - first) }
    }

    private static func horizontal(_ scale: Scale, _ value: Double) -> Double {
        margins.left + scale.place(value) * (width - margins.left - margins.right)
    }

    private static func vertical(_ scale: Scale, _ value: Double) -> Double {
        height - margins.bottom - scale.place(value) * (height - margins.top - margins.bottom)
    }

    // MARK: Elements

    private static func head(_ title: String) -> String {
        """
        <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(Int(width)) \(Int(height))" role="img">
        <title>\(title)</title>
        <style>
        text { font: 12px system-ui, sans-serif; fill: #24292f }
        .grid { stroke: #d0d7de } .axis { stroke: #57606a }
        @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .grid { stroke: #30363d } .axis { stroke: #8b949e } }
        </style>
        \(text(width / 2, 20, "middle", title))
        """
    }

    private static func legend(_ index: Int, _ name: String, _ colour: String) -> String {
        let top = margins.top + 14 + Double(index) * 18
        return line(margins.left + 12, top - 4, margins.left + 32, top - 4, "axis", colour)
            + text(margins.left + 38, top, "start", name)
    }

    private static func line(
        _ x1: Double, _ y1: Double, _ x2: Double, _ y2: Double, _ kind: String,
        _ colour: String? = nil
    ) -> String {
        let style = colour.map { " style=\"stroke:\($0);stroke-width:2\"" } ?? ""
        let places = zip(["x1", "y1", "x2", "y2"], [x1, y1, x2, y2]).map {
            "\($0)=\"\(Decimals.format($1, 1))\""
        }
        return "<line \(places.joined(separator: " ")) class=\"\(kind)\"\(style)/>"
    }

    private static func text(_ x: Double, _ y: Double, _ anchor: String, _ text: String) -> String {
        "<text x=\"\(Decimals.format(x, 1))\" y=\"\(Decimals.format(y, 1))\" text-anchor=\"\(anchor)\">\(text)</text>"
    }
}
