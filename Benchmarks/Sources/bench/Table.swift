import Foundation

/// Rows of medians beside the floor of the same run.
struct Table {
    let title: String
    private var rows: [(name: String, samples: Samples)] = []

    init(_ title: String) {
        self.title = title
    }

    /// Adds a row. The first is the floor.
    mutating func add(_ name: String, _ samples: Samples) {
        rows.append((name, samples))
    }

    func show() {
        guard let floor = rows.first?.samples.median else { return }
        print("\n\(title)")
        for (name, samples) in rows {
            let ratio = samples.median / floor
            print(
                "  " + name.padding(toLength: 64, withPad: " ", startingAt: 0)
                    + String(
                        format: "%8.1f us  p95 %8.1f us  x%.2f", samples.median.microseconds,
                        samples.p95.microseconds, ratio))
        }
    }
}
