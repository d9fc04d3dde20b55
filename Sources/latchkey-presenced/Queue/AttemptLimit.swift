import FoundationEssentials

/// How often a user may show another finger. A state machine over given times.
///
/// After five fingers in a row that were not the user's, none is looked at for a minute; after each further five, twice
/// as long, an hour at most. It is kept in memory: whoever can restart the service is root, and root is the boundary.
struct AttemptLimit {
    static let failuresUntilLock = 5
    static let firstLock: TimeInterval = 60
    static let longestLock: TimeInterval = 3600

    private struct Record {
        var failures = 0
        var lockedUntil: Date?
    }

    private var records: [UInt32: Record] = [:]

    /// Until when no finger of the user is looked at.
    func lockedUntil(_ user: UInt32, at now: Date) -> Date? {
        guard let until = records[user]?.lockedUntil, until > now else { return nil }
        return until
    }

    mutating func recordMatch(_ user: UInt32) {
        records[user]?.failures = 0
        records[user]?.lockedUntil = nil
    }

    mutating func recordFailure(_ user: UInt32, at now: Date) {
        var record = records[user, default: Record()]
        record.failures += 1
        if record.failures % Self.failuresUntilLock == 0 {
            let doublings = min(record.failures / Self.failuresUntilLock - 1, 10)
            let lock = min(Self.longestLock, Self.firstLock * Double(1 << doublings))
            record.lockedUntil = now.addingTimeInterval(lock)
        }
        records[user] = record
    }
}
