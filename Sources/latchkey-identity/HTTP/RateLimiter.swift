import FoundationEssentials
import Latchkey
import LatchkeyRelyingParty
import Synchronization

/// Counts events per name within a time window, in memory.
final class RateLimiter: Sendable {
    private struct Window {
        var startedAt: Date
        var count: Int
    }

    /// The length in bytes above which a name is stored as a digest: requests can contain names of any length.
    private static let maximumNameLength = 128

    private let windows = Mutex<[String: Window]>([:])
    private let limit: Int
    private let duration: TimeInterval
    private let maximumNames: Int
    private let clock: WallClock

    /// - Parameters:
    ///   - duration: The length of a window in seconds.
    ///   - maximumNames: The maximum number of names. Above it, the limiter drops names whose window is over, and then
    ///     the names with the lowest counts. An attacker who invents names cannot displace a name near its limit.
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
        windows.withLock { count(Self.key(name), in: &$0) <= limit }
    }

    /// Seconds until the next event of this name is admitted; nil if it would be admitted now. Counts nothing.
    func wait(_ name: String) -> TimeInterval? {
        windows.withLock { windows in
            guard let window = windows[Self.key(name)], window.count >= limit else { return nil }
            let left = duration - clock.now.timeIntervalSince(window.startedAt)
            return left > 0 ? left : nil
        }
    }

    /// Sets the count of a name to zero.
    func reset(_ name: String) {
        windows.withLock { $0[Self.key(name)] = nil }
    }

    /// Subtracts one event.
    func withdraw(_ name: String) {
        let key = Self.key(name)
        windows.withLock { if let count = $0[key]?.count { $0[key]?.count = max(0, count - 1) } }
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

    /// Drops a quarter of the names, so that the next new name does not trigger it again.
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

extension RateLimiter {
    /// Counts one event.
    ///
    /// - Throws: ``OAuthError`` with `Retry-After` if the event exceeds the limit.
    func require(_ name: String) throws(OAuthError) {
        guard admit(name) else {
            throw OAuthError(429, "rate_limited", "there were too many requests", retryAfter: secondsToWait(name))
        }
    }

    /// Whole seconds until the next event of this name is admitted, at least one.
    func secondsToWait(_ name: String) -> Int {
        max(1, Int((wait(name) ?? 0).rounded(.up)))
    }
}

/// Limits password guessing per user and address, per address, and per user over all addresses.
struct LoginThrottle: Sendable {
    /// The account whose password is tried.
    struct Account: Sendable {
        fileprivate let name: String

        /// The account of an existing user, regardless of the spelling of the user name, or else of an unknown name.
        /// Unknown names that differ only in the case of ASCII letters are one account, as in the database, so that
        /// unknown users are throttled exactly as existing ones.
        init(_ user: User?, named username: String) {
            if let user {
                name = "id \(user.id)"
                return
            }
            let bytes = username.utf8.map { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) ? $0 | 0x20 : $0 }
            // Strings compare by Unicode equivalence, the database compares bytes.
            name = "name \(Base64URL.encode(Data(bytes)))"
        }
    }

    /// Five minutes.
    static let window: TimeInterval = 300
    static let failuresPerUserAndAddress = 5
    static let failuresPerAddress = 50
    static let failuresPerUser = 100

    private let pairs: RateLimiter
    private let addresses: RateLimiter
    private let users: RateLimiter

    init(clock: WallClock) {
        pairs = RateLimiter(limit: Self.failuresPerUserAndAddress, per: Self.window, clock: clock)
        addresses = RateLimiter(limit: Self.failuresPerAddress, per: Self.window, clock: clock)
        users = RateLimiter(limit: Self.failuresPerUser, per: Self.window, clock: clock)
    }

    /// Seconds until the next attempt for this account is checked; nil if it would be checked now.
    func wait(_ account: Account, address: String) -> TimeInterval? {
        [
            pairs.wait("\(address) \(account.name)"), addresses.wait(address), users.wait(account.name),
        ].compactMap { $0 }.max()
    }

    /// Counts an attempt. Call it before the password is checked, so that parallel attempts do not exceed the limit.
    func begin(_ account: Account, address: String) {
        _ = pairs.admit("\(address) \(account.name)")
        _ = addresses.admit(address)
        _ = users.admit(account.name)
    }

    /// Subtracts an attempt whose password was correct, and clears the user's failures from this address.
    func succeeded(_ account: Account, address: String) {
        pairs.reset("\(address) \(account.name)")
        addresses.withdraw(address)
        users.withdraw(account.name)
    }
}
