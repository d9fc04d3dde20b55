public import FoundationEssentials
public import GRDB
internal import Latchkey
internal import Synchronization

/// Stores issued challenges until they are used.
public protocol ChallengeStore: Sendable {
    /// Creates and stores a new challenge.
    func issue(_ purpose: ChallengePurpose) async throws -> Challenge

    /// Uses a challenge. Of any number of calls with the same token, at most one returns true.
    ///
    /// - Returns: Whether the token was issued for this purpose, is unused and has not expired. Afterwards the token is
    ///   used, also if the purpose is wrong.
    func consume(_ token: String, for purpose: ChallengePurpose) async throws -> Bool
}

/// A random text that a client can use in one request, so that the request cannot be replayed.
public struct Challenge: Hashable, Sendable {
    /// Seconds until a challenge expires.
    package static let lifetime: TimeInterval = 300
    /// The length of ``token`` in characters. Each has 5 random bits, 160 bits in total.
    package static let tokenLength = 32

    /// 32 characters of Crockford's base 32: digits and upper-case letters without I, L, O and U.
    public let token: String
    /// The only purpose for which the challenge is valid.
    public let purpose: ChallengePurpose
    /// The time of expiry, 300 seconds after the challenge was created.
    public let expiresAt: Date

    /// Creates a challenge from the system's random number generator.
    public init(_ purpose: ChallengePurpose) {
        self.init(purpose, clock: .system, random: .system)
    }

    package init(_ purpose: ChallengePurpose, clock: WallClock, random: RandomSource) {
        token = String(decoding: random.bytes(Self.tokenLength).map { Self.alphabet[Int($0 & 31)] }, as: UTF8.self)
        self.purpose = purpose
        expiresAt = clock.now.addingTimeInterval(Self.lifetime)
    }

    private static let alphabet = Array("0123456789ABCDEFGHJKMNPQRSTVWXYZ".utf8)

    /// SHA-256 of a token. Stores keep only the digest, so that an attacker who reads a store cannot use its
    /// challenges, and so that the time of a lookup does not depend on the token.
    static func digest(_ token: String) -> [UInt8] {
        MessageDigest(sha256: token.utf8).bytes
    }
}

/// The kind of request that a challenge is valid for.
public enum ChallengePurpose: String, Sendable, Codable, CaseIterable {
    /// An anonymous user's request.
    case anonymousRequest = "anonymous_request"
    /// A biometric request.
    case biometricRequest = "biometric_request"
    /// An app that logs another app in.
    case app2appRequest = "app2app_request"
    /// A locker assertion.
    case lockerRequest = "locker_request"
}

/// Challenges in memory, for a server of one process. They are lost when the process ends.
public final class MemoryChallengeStore: ChallengeStore {
    private struct Entry {
        var purpose: ChallengePurpose
        var expiresAt: Date
    }

    private struct State {
        var entries: [[UInt8]: Entry] = [:]
        /// In the order of expiry: all have the same lifetime.
        var order: [(digest: [UInt8], expiresAt: Date)] = []
    }

    private let state = Mutex(State())
    private let clock: WallClock
    private let random: RandomSource
    private let capacity: Int

    /// Creates a store.
    ///
    /// - Parameter capacity: The maximum number of challenges. Above it, new challenges replace the oldest.
    public convenience init(capacity: Int = 10_000) {
        self.init(capacity: capacity, clock: .system)
    }

    package init(capacity: Int = 10_000, clock: WallClock, random: RandomSource = .system) {
        self.capacity = max(1, capacity)
        self.clock = clock
        self.random = random
    }

    public func issue(_ purpose: ChallengePurpose) async throws -> Challenge {
        let challenge = Challenge(purpose, clock: clock, random: random)
        let digest = Challenge.digest(challenge.token)
        let now = clock.now
        state.withLock { state in
            let expired = state.order.prefix { $0.expiresAt <= now }.count
            let leaving = max(expired, state.order.count - capacity + 1, 0)
            for (digest, _) in state.order.prefix(leaving) { state.entries[digest] = nil }
            state.order.removeFirst(leaving)
            state.entries[digest] = Entry(purpose: purpose, expiresAt: challenge.expiresAt)
            state.order.append((digest, challenge.expiresAt))
        }
        return challenge
    }

    public func consume(_ token: String, for purpose: ChallengePurpose) async throws -> Bool {
        let entry = state.withLock { $0.entries.removeValue(forKey: Challenge.digest(token)) }
        guard let entry else { return false }
        return entry.purpose == purpose && clock.now < entry.expiresAt
    }
}

/// Challenges in SQLite, for servers of one or several processes.
public struct DatabaseChallengeStore: ChallengeStore {
    private let database: any DatabaseWriter
    private let clock: WallClock
    private let random: RandomSource

    /// Creates a store.
    ///
    /// - Parameter database: A database with the migrations of ``registerMigrations(_:)``.
    public init(_ database: any DatabaseWriter) {
        self.init(database, clock: .system)
    }

    package init(_ database: any DatabaseWriter, clock: WallClock, random: RandomSource = .system) {
        self.database = database
        self.clock = clock
        self.random = random
    }

    /// Registers the migrations that create the table.
    public static func registerMigrations(_ migrator: inout DatabaseMigrator) {
        migrator.registerMigration("latchkey challenges 1") { database in
            try database.execute(
                sql: """
                    CREATE TABLE latchkey_challenge (
                        digest BLOB PRIMARY KEY NOT NULL,
                        purpose TEXT NOT NULL,
                        expires_at REAL NOT NULL
                    ) STRICT, WITHOUT ROWID;
                    CREATE INDEX latchkey_challenge_expiry ON latchkey_challenge (expires_at);
                    """)
        }
    }

    public func issue(_ purpose: ChallengePurpose) async throws -> Challenge {
        let challenge = Challenge(purpose, clock: clock, random: random)
        let now = clock.now.timeIntervalSince1970
        try await database.write { database in
            try database.execute(sql: "DELETE FROM latchkey_challenge WHERE expires_at <= ?", arguments: [now])
            try database.execute(
                sql: "INSERT INTO latchkey_challenge (digest, purpose, expires_at) VALUES (?, ?, ?)",
                arguments: [
                    Data(Challenge.digest(challenge.token)), purpose.rawValue,
                    challenge.expiresAt.timeIntervalSince1970,
                ])
        }
        return challenge
    }

    public func consume(_ token: String, for purpose: ChallengePurpose) async throws -> Bool {
        let digest = Data(Challenge.digest(token))
        let now = clock.now.timeIntervalSince1970
        // One statement finds and deletes the row, so that only one of two concurrent calls gets it.
        return try await database.write { database in
            let row = try Row.fetchOne(
                database, sql: "DELETE FROM latchkey_challenge WHERE digest = ? RETURNING purpose, expires_at",
                arguments: [digest])
            guard let row, let expiresAt: Double = row["expires_at"], let bound: String = row["purpose"] else {
                return false
            }
            return bound == purpose.rawValue && now < expiresAt
        }
    }
}
