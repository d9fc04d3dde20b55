/// A limit on events within any period of the given length, for each key. A state machine over
/// given times, which setting the clock does not change.
///
/// It forgets a key whose events are all older than the period, so it stores at most the keys that
/// had an event recently.
package struct RateLimit<Key: Hashable> {
    private let count: Int
    private let period: Duration
    /// The times of the events of the last period, the oldest first.
    private var times: [Key: [ContinuousClock.Instant]] = [:]
    /// The number of keys at which old ones are searched for next.
    private var limit = Self.fewKeys
    private static var fewKeys: Int { 64 }

    /// - Parameters:
    ///   - count: The maximum number of events of a key in a period.
    package init(_ count: Int, in period: Duration) {
        self.count = count
        self.period = period
    }

    /// - Returns: Whether one more event is allowed. Only an allowed event counts.
    package mutating func admit(_ key: Key, at now: ContinuousClock.Instant) -> Bool {
        var recent = times[key, default: []]
        recent.removeAll { now - $0 >= period }
        defer {
            times[key] = recent
            if times.count > limit { forgetOldKeys(at: now) }
        }
        guard recent.count < count else { return false }
        recent.append(now)
        return true
    }

    package mutating func forget(_ key: Key) { times[key] = nil }

    /// Subtracts the last event of a key.
    package mutating func withdraw(_ key: Key) {
        times[key]?.removeLast()
        if times[key]?.isEmpty == true { times[key] = nil }
    }

    private mutating func forgetOldKeys(at now: ContinuousClock.Instant) {
        times = times.filter { _, times in times.contains { now - $0 < period } }
        // The search takes time in proportion to the number of keys, so it must be rare.
        limit = Swift.max(Self.fewKeys, 2 * times.count)
    }

    /// The number of stored keys.
    var keyCount: Int { times.count }
}

extension RateLimit: Sendable where Key: Sendable {}
