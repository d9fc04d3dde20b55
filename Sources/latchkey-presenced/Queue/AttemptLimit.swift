/// How often a user may show another finger. A state machine over given times.
///
/// After five fingers in a row that were not the user's, none is looked at for a minute; after each further five, twice
/// as long, an hour at most. The times are of a clock that nobody sets and that goes on in suspension. It is kept in
/// memory: whoever can restart the service is root, and root is the boundary.
struct AttemptLimit {
    static let failuresUntilLock = 5
    static let firstLock: Duration = .seconds(60)
    static let longestLock: Duration = .seconds(3600)

    private struct Record {
        var failures = 0
        var lockedUntil: ContinuousClock.Instant?
    }

    private var records: [UInt32: Record] = [:]

    /// For how long no finger of the user is looked at; nil where one is.
    func lock(of user: UInt32, at now: ContinuousClock.Instant) -> Duration? {
        guard let until = records[user]?.lockedUntil, until > now else { return nil }
        return until - now
    }

    mutating func recordMatch(_ user: UInt32) {
        records[user]?.failures = 0
        records[user]?.lockedUntil = nil
    }

    mutating func recordFailure(_ user: UInt32, at now: ContinuousClock.Instant) {
        var record = records[user, default: Record()]
        record.failures += 1
        if record.failures % Self.failuresUntilLock == 0 {
            let doublings = min(record.failures / Self.failuresUntilLock - 1, 10)
            let lock = min(Self.longestLock, Self.firstLock * (1 << doublings))
            record.lockedUntil = now + lock
        }
        records[user] = record
    }
}
