import LatchkeyRelyingParty

/// Limits the failed logins with a password of this process: per user and network, per network, and
/// per user over all networks.
///
/// The last limit bounds the guesses of an attacker with many networks. It also lets such an
/// attacker keep the user out, and two or three networks are enough for that. One is not: it adds at
/// most ``failuresPerShare`` to the user's count in an hour, and less than twice as many in an hour
/// that begins within its own. The limits within an hour count each browser in which the user has
/// logged in before separately. So no other network keeps the user out of these browsers.
struct LoginThrottle: Sendable {
    static let failuresPerUserAndAddress = 5
    static let failuresPerAddress = 50
    /// The maximum of one network for one user, within an hour. Less than half of
    /// ``failuresPerUser``, because two windows of a network can overlap one of the user.
    static let failuresPerShare = 10
    /// Within an hour.
    static let failuresPerUser = 30

    private let pairs: RequestCounts
    private let addresses: RequestCounts
    /// The failures of a network that count against a user.
    private let shares: RequestCounts
    private let users: RequestCounts

    init(clock: WallClock) {
        pairs = RequestCounts(limit: Self.failuresPerUserAndAddress, per: 300, clock: clock)
        addresses = RequestCounts(limit: Self.failuresPerAddress, per: 300, clock: clock)
        shares = RequestCounts(limit: Self.failuresPerShare, per: 3_600, clock: clock)
        users = RequestCounts(limit: Self.failuresPerUser, per: 3_600, clock: clock)
    }

    /// A login with a password.
    struct Attempt: Sendable {
        let username: String
        let network: String
        /// The ID of a browser in which the user has logged in before; nil for another browser.
        let browser: String?

        fileprivate var user: String { User.key(username) + (browser.map { " " + $0 } ?? "") }
        fileprivate var share: String { "\(network) \(user)" }
        fileprivate var pair: String { "\(network) \(User.key(username))" }
    }

    /// Counts an attempt. Call it before the password is checked, so that parallel attempts do not
    /// exceed the limit.
    ///
    /// - Returns: Seconds until the next attempt is checked; nil if this one may be checked now.
    func begin(_ attempt: Attempt) -> Int? {
        let waits = [pairs.admit(attempt.pair), addresses.admit(attempt.network)]
        // An attempt that its network may not make does not count against the user.
        if let wait = waits.compactMap({ $0 }).max() ?? shares.admit(attempt.share) { return wait }
        guard let wait = users.admit(attempt.user) else { return nil }
        // It is not checked, so the user can try again when others no longer use up the limit.
        shares.withdraw(attempt.share)
        return wait
    }

    /// Subtracts an attempt whose password was not wrong.
    func withdraw(_ attempt: Attempt) {
        pairs.withdraw(attempt.pair)
        addresses.withdraw(attempt.network)
        shares.withdraw(attempt.share)
        users.withdraw(attempt.user)
    }

    /// Subtracts an attempt whose password was correct, and clears the user's failures from this
    /// network.
    func succeeded(_ attempt: Attempt) {
        withdraw(attempt)
        pairs.reset(attempt.pair)
    }
}
