internal import FoundationEssentials

/// When to refresh a token by itself: pure computing. Whatever server and clock do, it neither spins nor computes a
/// time that is not one.
struct RefreshSchedule: Sendable {
    /// What to do next.
    enum Action: Hashable, Sendable {
        case refresh
        /// Wait so many seconds, then ask again.
        case wait(TimeInterval)
        /// There is nothing to refresh, now or ever.
        case stop
    }

    /// The least seconds between two attempts, also when they succeed.
    static let shortestPause: TimeInterval = 5
    /// The most seconds between two attempts while they fail.
    static let longestPause: TimeInterval = 300
    /// The most seconds to wait at once: then the clock and the store are looked at again, since both may have been
    /// changed meanwhile.
    static let longestWait: TimeInterval = 600

    let grace: TimeInterval
    private var failures = 0
    private var nextAttempt = Date.distantPast

    init(grace: TimeInterval) {
        self.grace = grace
    }

    func next(_ metadata: Token.Metadata, at now: Date) -> Action {
        guard metadata.isRefreshable, let due = Self.dueDate(of: metadata, grace: grace, at: now) else { return .stop }
        // A clock that was set back must not make the pause longer.
        let time = max(due, min(nextAttempt, now.addingTimeInterval(Self.longestPause)))
        guard time > now else { return .refresh }
        return .wait(min(max(time.timeIntervalSince(now), 1), Self.longestWait))
    }

    mutating func succeeded(at now: Date) {
        failures = 0
        nextAttempt = now.addingTimeInterval(Self.shortestPause)
    }

    mutating func failed(at now: Date) {
        // Beyond some doublings the limit holds anyway.
        let pause = Self.shortestPause * Double(1 << min(failures, 10))
        failures += 1
        nextAttempt = now.addingTimeInterval(min(pause, Self.longestPause))
    }

    /// From when on a token is to be refreshed; nil for one without an end. A token from the future is due at once: the
    /// clock was set back, so nobody knows when it ends.
    static func dueDate(of metadata: Token.Metadata, grace: TimeInterval, at now: Date) -> Date? {
        guard let end = metadata.expiresAt else { return nil }
        guard metadata.issuedAt <= now.addingTimeInterval(IDTokenValidator.leeway) else { return now }
        let life = max(0, end.timeIntervalSince(metadata.issuedAt))
        return end.addingTimeInterval(-min(max(0, grace), life / 2))
    }
}
