/// A measured value with its goal.
struct Goal: Sendable {
    let work: String
    let value: String
    let floor: String
    let ratio: String
    let goal: String
    /// nil if this run did not measure it.
    let isMet: Bool?

    /// A time as a multiple of the floor.
    static func ratio(
        _ work: String, _ samples: Samples, over floor: Samples, named name: String,
        atMost limit: Double
    ) -> Goal {
        let ratio = samples.median / floor.median
        return Goal(
            work: work, value: samples.median.text, floor: "\(floor.median.text) \(name)",
            ratio: Decimals.format(ratio, 2), goal: "≤ \(Decimals.format(limit, 2))",
            isMet: ratio <= limit)
    }

    /// A number with a limit.
    static func limit(
        _ work: String, _ value: Double, _ unit: String, atMost limit: Double, floor: String = "–"
    ) -> Goal {
        Goal(
            work: work, value: "\(Decimals.format(value, 2)) \(unit)", floor: floor, ratio: "–",
            goal: "≤ \(Decimals.format(limit, limit == limit.rounded() ? 0 : 1)) \(unit)",
            isMet: value <= limit)
    }

    /// A row without a value in this run.
    static func unmeasured(_ work: String, goal: String) -> Goal {
        Goal(work: work, value: "not measured", floor: "–", ratio: "–", goal: goal, isMet: nil)
    }

    var cells: [String] {
        [work, value, floor, ratio, goal, isMet.map { $0 ? "ok" : "OVER" } ?? "–"]
    }

    static let columns = ["work", "measured", "floor", "ratio", "goal", ""]
}
