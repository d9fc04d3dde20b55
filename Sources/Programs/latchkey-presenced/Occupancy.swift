/// A limit on concurrent items, for each kind and in total. A state machine.
struct Occupancy<Kind: Hashable> {
    let perKind: Int
    let total: Int
    private var counts: [Kind: Int] = [:]
    private var count = 0

    init(perKind: Int, total: Int) {
        (self.perKind, self.total) = (perKind, total)
    }

    var isEmpty: Bool { count == 0 }

    /// - Returns: Whether one more is allowed.
    mutating func enter(_ kind: Kind) -> Bool {
        guard count < total, counts[kind, default: 0] < perKind else { return false }
        counts[kind, default: 0] += 1
        count += 1
        return true
    }

    mutating func leave(_ kind: Kind) {
        guard let present = counts[kind] else { return }
        counts[kind] = present > 1 ? present - 1 : nil
        count -= 1
    }
}

extension Occupancy: Sendable where Kind: Sendable {}
