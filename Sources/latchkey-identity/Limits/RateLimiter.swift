import FoundationEssentials
import Latchkey
import LatchkeyRelyingParty
import Synchronization

/// Counts events per name within a window of time, in memory.
final class RateLimiter: Sendable {
    private struct Window {
        var startedAt: Date
        var count: Int
    }

    /// The longest name that is kept as it is, in bytes. Others come from whoever wrote the request.
    private static let maximumNameLength = 128

    private let windows = Mutex<[String: Window]>([:])
    private let limit: Int
    private let duration: TimeInterval
    private let maximumNames: Int
    private let clock: WallClock

    /// - Parameters:
    ///   - duration: The length of a window in seconds.
    ///   - maximumNames: How many names are kept at most. When there are more, those are forgotten whose window is over,
    ///     and then those that were counted least, so that nobody is forgotten who is near the limit while others make
    ///     names up.
    init(limit: Int, per duration: TimeInterval, maximumNames: Int = 10_000, clock: WallClock) {
        self.limit = limit
        self.maximumNames = maximumNames
        self.duration = duration
        self.clock = clock
    }

    /// Counts one event.
    ///
    /// - Returns: Whether it is within the limit.
    func admit(_ name: String) -> Bool {
        windows.withLock { windows in
            count(Self.key(name), in: &windows) <= limit
        }
    }

    /// Seconds until the next event of this name will be admitted; nil when it would be now. Counts nothing.
    func wait(_ name: String) -> TimeInterval? {
        windows.withLock { windows in
            guard let window = windows[Self.key(name)], window.count >= limit else { return nil }
            let left = duration - clock.now.timeIntervalSince(window.startedAt)
            return left > 0 ? left : nil
        }
    }

    /// Forgets what was counted for a name.
    func reset(_ name: String) {
        windows.withLock { $0[Self.key(name)] = nil }
    }

    /// Takes one event back.
    func withdraw(_ name: String) {
        windows.withLock { windows in
            let key = Self.key(name)
            if let window = windows[key] { windows[key]?.count = max(0, window.count - 1) }
        }
    }

    private func count(_ name: String, in windows: inout [String: Window]) -> Int {
        let now = clock.now
        if windows[name] == nil, windows.count >= maximumNames { makeRoom(in: &windows, now: now) }
        var window = windows[name] ?? Window(startedAt: now, count: 0)
        if now.timeIntervalSince(window.startedAt) >= duration { window = Window(startedAt: now, count: 0) }
        window.count += 1
        windows[name] = window
        return window.count
    }

    /// Forgets a quarter, so that it is not done again for the very next name.
    private func makeRoom(in windows: inout [String: Window], now: Date) {
        windows = windows.filter { now.timeIntervalSince($0.value.startedAt) < duration }
        let surplus = windows.count - maximumNames * 3 / 4
        guard surplus > 0 else { return }
        let least = windows.sorted { ($0.value.count, $0.value.startedAt) < ($1.value.count, $1.value.startedAt) }
        for (name, _) in least.prefix(surplus) { windows[name] = nil }
    }

    private static func key(_ name: String) -> String {
        name.utf8.count <= maximumNameLength ? name : Base64URL.encode(Data(MessageDigest(sha256: name.utf8).bytes))
    }
}
