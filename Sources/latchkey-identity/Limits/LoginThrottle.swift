import FoundationEssentials
import LatchkeyRelyingParty

/// Slows down guessing of passwords: per user and address, per address, and per user over all addresses.
struct LoginThrottle: Sendable {
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

    /// Seconds until a password of this user will be looked at again; nil when it would be now.
    func wait(username: String, address: String) -> TimeInterval? {
        let username = username.lowercased()
        return [
            pairs.wait("\(address) \(username)"), addresses.wait(address), users.wait(username),
        ].compactMap { $0 }.max()
    }

    /// Counts an attempt, before its password is looked at, so that many at once gain nothing.
    func begin(username: String, address: String) {
        let username = username.lowercased()
        _ = pairs.admit("\(address) \(username)")
        _ = addresses.admit(address)
        _ = users.admit(username)
    }

    /// Takes the attempt back, for the password was right, and forgets the user's failures from this address.
    func succeeded(username: String, address: String) {
        let username = username.lowercased()
        pairs.reset("\(address) \(username)")
        addresses.withdraw(address)
        users.withdraw(username)
    }
}
