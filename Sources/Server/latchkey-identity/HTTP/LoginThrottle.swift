import FoundationEssentials
import Latchkey
import LatchkeyRelyingParty

/// Limits password guessing per user and address, per address, and per user over all addresses.
struct LoginThrottle: Sendable {
    /// The account whose password is tried.
    struct Account: Sendable {
        fileprivate let name: String

        /// The account of an existing user, regardless of the spelling of the user name, or else of
        /// an unknown name. Unknown names that differ only in the case of ASCII letters are one
        /// account, as in the database, so that unknown users are throttled exactly as existing
        /// ones.
        init(_ user: User?, named username: String) {
            if let user {
                name = "id \(user.id)"
                return
            }
            let bytes = username.utf8.map {
                (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) ? $0 | 0x20 : $0
            }
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

    init(database: any SQLDatabase, clock: WallClock) {
        func limiter(_ kind: String, _ limit: Int) -> RateLimiter {
            RateLimiter(kind, limit: limit, per: Self.window, database: database, clock: clock)
        }
        pairs = limiter("login pair", Self.failuresPerUserAndAddress)
        addresses = limiter("login address", Self.failuresPerAddress)
        users = limiter("login user", Self.failuresPerUser)
    }

    /// Thrown to undo a transaction that counted an attempt above a limit.
    private struct Throttled: Error {
        let seconds: TimeInterval
    }

    /// Counts an attempt, unless a limit forbids it. Call it before the password is checked, so
    /// that parallel attempts do not exceed the limit.
    ///
    /// - Returns: Seconds until the next attempt is checked; nil if this one may be checked now.
    func begin(_ account: Account, address: String) async throws -> TimeInterval? {
        let counted = counted(account, address)
        guard let database = pairs.database else {
            var waits: [TimeInterval] = []
            for (limiter, name) in counted {
                if let wait = try await limiter.wait(name) { waits.append(wait) }
            }
            if let longest = waits.max() { return longest }
            for (limiter, name) in counted { _ = try await limiter.admit(name) }
            return nil
        }
        do {
            try await database.write { connection in
                // All in the same order, so that two transactions do not wait for each other.
                let waits = try counted.compactMap { limiter, name in
                    let (count, wait) = try limiter.count(name, in: connection)
                    return count > limiter.limit ? wait : nil
                }
                if let longest = waits.max() { throw Throttled(seconds: longest) }
            }
            return nil
        } catch let error as Throttled {
            return error.seconds
        }
    }

    /// Subtracts an attempt whose password was correct, and clears the user's failures from this
    /// address.
    func succeeded(_ account: Account, address: String) async throws {
        try await pairs.reset("\(address) \(account.name)")
        try await addresses.withdraw(address)
        try await users.withdraw(account.name)
    }

    private func counted(_ account: Account, _ address: String) -> [(RateLimiter, String)] {
        [(pairs, "\(address) \(account.name)"), (addresses, address), (users, account.name)]
    }
}
