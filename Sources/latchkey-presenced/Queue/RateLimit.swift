/// How often a user may do something in a minute. A state machine over given times, which no clock of the day can
/// change.
///
/// It knows users with a name only, so that it stays small.
struct RateLimit {
    let perMinute: Int
    private var times: [UInt32: [ContinuousClock.Instant]] = [:]

    init(perMinute: Int) {
        self.perMinute = perMinute
    }

    /// - Returns: Whether the user may do it once more.
    mutating func admit(_ user: UInt32, at now: ContinuousClock.Instant) -> Bool {
        var recent = times[user, default: []]
        recent.removeAll { now - $0 >= .seconds(60) }
        defer { times[user] = recent }
        guard recent.count < perMinute else { return false }
        recent.append(now)
        return true
    }
}
