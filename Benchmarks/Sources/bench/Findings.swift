/// The results of one measurement.
struct Findings: Sendable {
    var goals: [Goal] = []
    var tables: [Table] = []
    var figures: [Figures] = []
    var plots: [Plot] = []
    var counts: [(operation: String, commands: [String], most: Int)] = []

    static func += (left: inout Findings, right: Findings) {
        left.goals += right.goals
        left.tables += right.tables
        left.figures += right.figures
        left.plots += right.plots
        left.counts += right.counts
    }

    func show() {
        for table in tables { Self.show(table.title, Table.columns, table.cells) }
        for figures in figures {
            Self.show(figures.title, figures.columns, figures.rows)
            if !figures.note.isEmpty { print("  \(figures.note)") }
        }
        if !counts.isEmpty {
            Self.show("TPM commands per operation", Self.countColumns, countCells)
        }
        if !goals.isEmpty { Self.show("Goals", Goal.columns, goals.map(\.cells)) }
        for attempt in Attempt.forMissed(goals) { print("\n  \(attempt.work): \(attempt.text)") }
    }

    static let countColumns = ["operation", "commands", "at most", "which"]

    var countCells: [[String]] {
        counts.map {
            [
                $0.operation, "\($0.commands.count)", "\($0.most)",
                $0.commands.joined(separator: ", "),
            ]
        }
    }

    private static func show(_ title: String, _ columns: [String], _ rows: [[String]]) {
        let all = [columns] + rows
        let widths = columns.indices.map { column in all.map { $0[column].count }.max() ?? 0 }
        print("\n\(title)")
        for row in all {
            print("  " + zip(row, widths).map { $0.padded(to: $1) }.joined(separator: "  "))
        }
    }
}
