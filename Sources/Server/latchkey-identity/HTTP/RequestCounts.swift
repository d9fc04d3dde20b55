import FoundationEssentials
import LatchkeyRelyingParty
import Synchronization

/// Counts events like `RateLimit`, but can subtract events, limits the number of names, and tells
/// the time to wait.
///
/// The counts are per name within a time window, in this process. A window begins with its first
/// event, so a period of the same length that begins within it can have up to twice the limit.
final class RequestCounts: Sendable {
    private struct Window {
        var startedAt: Date
        var count: Int
    }

    /// The maximum number of names. Above it, names whose window is over are dropped, and then the
    /// names with the lowest counts. An attacker who invents names cannot displace a name near its
    /// limit.
    static let maximumNames = 10_000

    private let windows = Mutex<[String: Window]>([:])
    private let limit: Int
    private let duration: TimeInterval
    private let clock: WallClock

    /// - Parameter duration: The length of a window in seconds.
    init(limit: Int, per duration: TimeInterval, clock: WallClock) {
        self.limit = limit
        self.duration = duration
        self.clock = clock
    }

    /// Counts one event.
    ///
    /// - Returns: nil if the event is within the limit; otherwise the seconds until the next window,
    ///   at least one.
    func admit(_ name: String) -> Int? {
        let now = clock.now
        return windows.withLock { windows in
            if windows[name] == nil, windows.count >= Self.maximumNames {
                makeRoom(in: &windows, now: now)
            }
            var window = windows[name] ?? Window(startedAt: now, count: 0)
            if now.timeIntervalSince(window.startedAt) >= duration {
                window = Window(startedAt: now, count: 0)
            }
            window.count += 1
            windows[name] = window
            guard window.count > limit else { return nil }
            let left = duration - now.timeIntervalSince(window.startedAt)
            return max(1, Int(left.rounded(.up)))
        }
    }

    /// Counts one event.
    ///
    /// - Throws: ``OAuthError`` with `Retry-After` if the event exceeds the limit.
    func require(_ name: String) throws(OAuthError) {
        guard let seconds = admit(name) else { return }
        throw OAuthError(
            429, "rate_limited", "there were too many requests", retryAfter: seconds)
    }

    /// Sets the count of a name to zero.
    func reset(_ name: String) { windows.withLock { $0[name] = nil } }

    /// Subtracts one event.
    func withdraw(_ name: String) {
        windows.withLock { if let count = $0[name]?.count { $0[name]?.count = max(0, count - 1) } }
    }

    /// Drops a quarter of the names, so that the next new name does not trigger it again.
    private func makeRoom(in windows: inout [String: Window], now: Date) {
        windows = windows.filter { now.timeIntervalSince($0.value.startedAt) < duration }
        let surplus = windows.count - Self.maximumNames * 3 / 4
        guard surplus > 0 else { return }
        let least = windows.sorted {
            ($0.value.count, $0.value.startedAt) < ($1.value.count, $1.value.startedAt)
        }
        for (name, _) in least.prefix(surplus) { windows[name] = nil }
    }
}
