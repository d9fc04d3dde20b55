/// The limit on fingers that do not match. A state machine over given times.
///
/// After five such fingers in a row, a user's requests are refused for a minute; after each further
/// five, twice as long, at most an hour. The times are of a clock that cannot be set and that runs
/// during suspension. The state is in memory: restarting the service resets it, which only root can
/// do. The right PIN resets it too.
struct AttemptLimit {
    static let failuresUntilLock = 5
    static let firstLock: Duration = .seconds(60)
    static let longestLock: Duration = .seconds(3600)

    private struct Record {
        var failures = 0
        var lockedUntil: ContinuousClock.Instant?
    }

    private var records: [UInt32: Record] = [:]

    /// The time for which the user's requests are refused; nil if they are accepted.
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

/// The limit on a user's calls per minute. A state machine over given times, which setting the
/// clock does not change.
///
/// It stores only users that have a name, so it stays small.
struct RateLimit {
    let perMinute: Int
    private var times: [UInt32: [ContinuousClock.Instant]] = [:]

    init(perMinute: Int) {
        self.perMinute = perMinute
    }

    /// - Returns: Whether one more call is allowed.
    mutating func admit(_ user: UInt32, at now: ContinuousClock.Instant) -> Bool {
        var recent = times[user, default: []]
        recent.removeAll { now - $0 >= .seconds(60) }
        defer { times[user] = recent }
        guard recent.count < perMinute else { return false }
        recent.append(now)
        return true
    }
}
