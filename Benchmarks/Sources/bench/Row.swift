import Foundation

/// A row of the table: a measured value with its goal.
struct Row: Sendable {
    let work: String
    /// nil if this run did not measure it.
    let value: Double?
    let unit: String
    let goal: Double
    /// Whether the goal is the least value instead of the most.
    var isLeast = false
    /// The compared values, or where the value is measured.
    var note = ""

    /// A number with a limit.
    init(
        _ work: String, _ value: Double?, _ unit: String = "", atMost goal: Double,
        note: String = ""
    ) {
        (self.work, self.value, self.unit, self.goal, self.note) = (work, value, unit, goal, note)
    }

    /// A time as a multiple of the floor.
    init(_ work: String, _ samples: Samples, over floor: Samples, atMost goal: Double) {
        self.init(
            work, samples.median / floor.median, atMost: goal,
            note: "\(samples.median.text) ÷ \(floor.median.text)")
    }

    var cells: [String] {
        let unit = unit.isEmpty ? "" : " \(unit)"
        let result = value.map { isLeast ? $0 >= goal : $0 <= goal }.map { $0 ? "ok" : "OVER" }
        return [
            work, value.map { Self.text($0) + unit } ?? "–",
            "\(isLeast ? "≥" : "≤") \(Self.text(goal))\(unit)", result ?? "–", note,
        ]
    }

    static let columns = ["work", "measured", "goal", "", "from"]

    /// The number with at most two decimals.
    private static func text(_ number: Double) -> String {
        number == number.rounded() ? "\(Int(number))" : number.text(number < 10 ? 2 : 1)
    }
}

/// The results of one measurement.
struct Findings: Sendable {
    var rows: [Row] = []
    var plots: [Plot] = []

    static func += (left: inout Findings, right: Findings) {
        left.rows += right.rows
        left.plots += right.plots
    }

    /// The rows as a table in Markdown.
    var table: String {
        let all = [Row.columns, Row.columns.map { _ in "---" }] + rows.map(\.cells)
        let widths = Row.columns.indices.map { column in all.map { $0[column].count }.max() ?? 0 }
        return all.map { row in
            let cells = zip(row, widths).map { text, width in
                text + String(repeating: " ", count: width - text.count)
            }
            return "| \(cells.joined(separator: " | ")) |"
        }.joined(separator: "\n")
    }
}

/// The failure of a measurement.
struct Failure: Error, CustomStringConvertible {
    let reason: String

    var description: String { reason }
}
