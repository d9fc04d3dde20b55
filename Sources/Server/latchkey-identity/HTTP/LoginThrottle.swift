import LatchkeyRelyingParty

/// Limits the failed logins with a password of this process, per user and network, and per network.
struct LoginThrottle: Sendable {
    static let failuresPerUserAndAddress = 5
    static let failuresPerAddress = 50

    private let pairs: RateLimiter
    private let addresses: RateLimiter

    init(clock: WallClock) {
        pairs = RateLimiter(limit: Self.failuresPerUserAndAddress, per: 300, clock: clock)
        addresses = RateLimiter(limit: Self.failuresPerAddress, per: 300, clock: clock)
    }

    /// Counts an attempt. Call it before the password is checked, so that parallel attempts do not
    /// exceed the limit.
    ///
    /// - Returns: Seconds until the next attempt is checked; nil if this one may be checked now.
    func begin(_ username: String, network: String) -> Int? {
        let waits = [pairs.admit(Self.pair(username, network)), addresses.admit(network)]
        return waits.compactMap { $0 }.max()
    }

    /// Subtracts an attempt whose password was not wrong.
    func withdraw(_ username: String, network: String) {
        pairs.withdraw(Self.pair(username, network))
        addresses.withdraw(network)
    }

    /// Subtracts an attempt whose password was correct, and clears the user's failures from this
    /// network.
    func succeeded(_ username: String, network: String) {
        pairs.reset(Self.pair(username, network))
        addresses.withdraw(network)
    }

    private static func pair(_ username: String, _ network: String) -> String {
        "\(network) \(User.key(username))"
    }
}
