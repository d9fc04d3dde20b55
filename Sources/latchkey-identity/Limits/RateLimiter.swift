import FoundationEssentials
import LatchkeyRelyingParty
import Synchronization

/// Counts events per name within a window of time, in memory.
final class RateLimiter: Sendable {
    private struct Window {
        var startedAt: Date
        var count: Int
    }

    /// How many names are kept; when there are more, those whose window is over are forgotten.
    private static let maximumNames = 10_000

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
    /// - Returns: Whether it is within the limit.
    func admit(_ name: String) -> Bool {
        windows.withLock { windows in
            count(name, in: &windows) <= limit
        }
    }

    /// Seconds until the next event of this name will be admitted; nil when it would be now. Counts nothing.
    func wait(_ name: String) -> TimeInterval? {
        windows.withLock { windows in
            guard let window = windows[name], window.count >= limit else { return nil }
            let left = duration - clock.now.timeIntervalSince(window.startedAt)
            return left > 0 ? left : nil
        }
    }

    /// Forgets what was counted for a name.
    func reset(_ name: String) {
        windows.withLock { $0[name] = nil }
    }

    /// Takes one event back.
    func withdraw(_ name: String) {
        windows.withLock { windows in
            if let window = windows[name] { windows[name]?.count = max(0, window.count - 1) }
        }
    }

    private func count(_ name: String, in windows: inout [String: Window]) -> Int {
        let now = clock.now
        if windows.count >= Self.maximumNames {
            windows = windows.filter { now.timeIntervalSince($0.value.startedAt) < duration }
        }
        var window = windows[name] ?? Window(startedAt: now, count: 0)
        if now.timeIntervalSince(window.startedAt) >= duration { window = Window(startedAt: now, count: 0) }
        window.count += 1
        windows[name] = window
        return window.count
    }
}
