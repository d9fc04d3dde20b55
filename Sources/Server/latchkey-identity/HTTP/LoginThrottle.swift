import LatchkeyRelyingParty

/// Limits the failed logins with a password of this process: per user and network, per network, and
/// per user over all networks.
///
/// The last limit counts browsers in which the user has logged in before separately. So an attacker
/// with many networks does not keep the user out of these browsers.
struct LoginThrottle: Sendable {
    static let failuresPerUserAndAddress = 5
    static let failuresPerAddress = 50
    /// Within an hour.
    static let failuresPerUser = 30

    private let pairs: RateLimiter
    private let addresses: RateLimiter
    private let users: RateLimiter

    init(clock: WallClock) {
        pairs = RateLimiter(limit: Self.failuresPerUserAndAddress, per: 300, clock: clock)
        addresses = RateLimiter(limit: Self.failuresPerAddress, per: 300, clock: clock)
        users = RateLimiter(limit: Self.failuresPerUser, per: 3_600, clock: clock)
    }

    /// A login with a password.
    struct Attempt: Sendable {
        let username: String
        let network: String
        /// The ID of a browser in which the user has logged in before; nil for another browser.
        let browser: String?

        fileprivate var user: String { User.key(username) + (browser.map { " " + $0 } ?? "") }
        fileprivate var pair: String { "\(network) \(User.key(username))" }
    }

    /// Counts an attempt. Call it before the password is checked, so that parallel attempts do not
    /// exceed the limit.
    ///
    /// - Returns: Seconds until the next attempt is checked; nil if this one may be checked now.
    func begin(_ attempt: Attempt) -> Int? {
        let waits = [pairs.admit(attempt.pair), addresses.admit(attempt.network)]
        // An attempt that its network may not make does not count against the user.
        return waits.compactMap { $0 }.max() ?? users.admit(attempt.user)
    }

    /// Subtracts an attempt whose password was not wrong.
    func withdraw(_ attempt: Attempt) {
        pairs.withdraw(attempt.pair)
        addresses.withdraw(attempt.network)
        users.withdraw(attempt.user)
    }

    /// Subtracts an attempt whose password was correct, and clears the user's failures from this
    /// network.
    func succeeded(_ attempt: Attempt) {
        withdraw(attempt)
        pairs.reset(attempt.pair)
    }
}
