import FoundationEssentials
import LatchkeyRelyingParty
import Synchronization

/// Counts events per name within a time window, in this process.
final class MemoryRateCounters: Sendable {
    private struct Window {
        var startedAt: Date
        var count: Int
    }

    private let windows = Mutex<[String: Window]>([:])
    private let limit: Int
    private let duration: TimeInterval
    private let maximumNames: Int
    private let clock: WallClock

    /// - Parameters:
    ///   - duration: The length of a window in seconds.
    ///   - maximumNames: The maximum number of names. Above it, the limiter drops names whose
    ///     window is over, and then the names with the lowest counts. An attacker who invents names
    ///     cannot displace a name near its limit.
    init(limit: Int, per duration: TimeInterval, maximumNames: Int = 10_000, clock: WallClock) {
        self.limit = limit
        self.maximumNames = maximumNames
        self.duration = duration
        self.clock = clock
    }

    /// Counts one event.
    ///
    /// - Returns: Whether the event is within the limit.
    func admit(_ name: String) -> Bool {
        windows.withLock { count(name, in: &$0) <= limit }
    }

    /// Seconds until the next event of this name is admitted; nil if it would be admitted now.
    /// Counts nothing.
    func wait(_ name: String) -> TimeInterval? {
        windows.withLock { windows in
            guard let window = windows[name], window.count >= limit else { return nil }
            let left = duration - clock.now.timeIntervalSince(window.startedAt)
            return left > 0 ? left : nil
        }
    }

    /// Sets the count of a name to zero.
    func reset(_ name: String) {
        windows.withLock { $0[name] = nil }
    }

    /// Subtracts one event.
    func withdraw(_ name: String) {
        windows.withLock { if let count = $0[name]?.count { $0[name]?.count = max(0, count - 1) } }
    }

    private func count(_ name: String, in windows: inout [String: Window]) -> Int {
        let now = clock.now
        if windows[name] == nil, windows.count >= maximumNames { makeRoom(in: &windows, now: now) }
        var window = windows[name] ?? Window(startedAt: now, count: 0)
        if now.timeIntervalSince(window.startedAt) >= duration {
            window = Window(startedAt: now, count: 0)
        }
        window.count += 1
        windows[name] = window
        return window.count
    }

    /// Drops a quarter of the names, so that the next new name does not trigger it again.
    private func makeRoom(in windows: inout [String: Window], now: Date) {
        windows = windows.filter { now.timeIntervalSince($0.value.startedAt) < duration }
        let surplus = windows.count - maximumNames * 3 / 4
        guard surplus > 0 else { return }
        let least = windows.sorted {
            ($0.value.count, $0.value.startedAt) < ($1.value.count, $1.value.startedAt)
        }
        for (name, _) in least.prefix(surplus) { windows[name] = nil }
    }
}
