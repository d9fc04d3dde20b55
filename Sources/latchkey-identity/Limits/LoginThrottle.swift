import FoundationEssentials
import LatchkeyRelyingParty

/// Slows down guessing of passwords: per user and address, per address, and per user over all addresses.
struct LoginThrottle: Sendable {
    /// Whose password is being guessed.
    struct Account: Sendable {
        fileprivate let name: String

        /// However the name was spelt that led to the user.
        init(_ user: User) {
            name = "id \(user.id)"
        }

        /// A name that leads to nobody. Spellings that the database takes for one name, which differ in the case of
        /// ASCII letters only, are one account, so that unknown users are throttled exactly as known ones are.
        init(unknown username: String) {
            name = "name \(FormFields.encode(username).lowercased())"
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

    /// Seconds until a password of this user will be looked at again; nil when it would be now.
    func wait(_ account: Account, address: String) -> TimeInterval? {
        return [
            pairs.wait("\(address) \(account.name)"), addresses.wait(address), users.wait(account.name),
        ].compactMap { $0 }.max()
    }

    /// Counts an attempt, before its password is looked at, so that many at once gain nothing.
    func begin(_ account: Account, address: String) {
        _ = pairs.admit("\(address) \(account.name)")
        _ = addresses.admit(address)
        _ = users.admit(account.name)
    }

    /// Takes the attempt back, for the password was right, and forgets the user's failures from this address.
    func succeeded(_ account: Account, address: String) {
        pairs.reset("\(address) \(account.name)")
        addresses.withdraw(address)
        users.withdraw(account.name)
    }
}
