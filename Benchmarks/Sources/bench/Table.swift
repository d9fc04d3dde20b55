/// A table of medians with the floor of the same run.
struct Table: Sendable {
    let title: String
    private var rows: [(name: String, samples: Samples)] = []

    init(_ title: String) {
        self.title = title
    }

    /// Adds a row. The first is the floor.
    mutating func add(_ name: String, _ samples: Samples) {
        rows.append((name, samples))
    }

    /// Name, median, 95th percentile, and the median as a multiple of the floor's median.
    var cells: [[String]] {
        guard let floor = rows.first?.samples.median else { return [] }
        return rows.map { name, samples in
            [
                name, samples.median.text, samples.p95.text,
                "×\(Decimals.format(samples.median / floor, 2))",
            ]
        }
    }

    static let columns = ["", "median", "95 %", "× the first"]
}
