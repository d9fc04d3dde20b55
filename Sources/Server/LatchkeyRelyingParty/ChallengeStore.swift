public import FoundationEssentials
internal import Latchkey

/// Stores issued challenges until they are used.
public protocol ChallengeStore: Sendable {
    /// Creates and stores a new challenge.
    func issue(_ purpose: ChallengePurpose) async throws -> Challenge

    /// Uses a challenge. Of any number of calls with the same token, at most one returns true.
    ///
    /// - Returns: Whether the token was issued for this purpose, is unused and has not expired.
    ///   Afterwards the token is used, also if the purpose is wrong.
    func consume(_ token: String, for purpose: ChallengePurpose) async throws -> Bool
}

/// A random text that a client can use in one request, so that the request cannot be replayed.
public struct Challenge: Hashable, Sendable {
    /// Seconds until a challenge expires.
    package static let lifetime: TimeInterval = 300

    /// 32 characters of Crockford's base 32, digits and upper-case letters without I, L, O and U:
    /// 160 random bits.
    public let token: String
    /// The only purpose for which the challenge is valid.
    public let purpose: ChallengePurpose
    /// The time of expiry, 300 seconds after the challenge was created.
    public let expiresAt: Date

    /// Creates a challenge from the system's random number generator.
    public init(_ purpose: ChallengePurpose) {
        self.init(purpose, at: WallClock.system.timestamp)
    }

    /// - Parameter time: Seconds since 1970.
    init(_ purpose: ChallengePurpose, at time: TimeInterval) {
        token = String((0..<32).map { _ in Self.alphabet[.random(in: Self.alphabet.indices)] })
        self.purpose = purpose
        expiresAt = Date(timeIntervalSince1970: time + Self.lifetime)
    }

    private static let alphabet = Array("0123456789ABCDEFGHJKMNPQRSTVWXYZ")

    /// SHA-256 of a token. Stores keep only the digest, so that an attacker who reads a store
    /// cannot use its challenges, and so that the time of a lookup does not depend on the token.
    static func digest(_ token: String) -> Data {
        Data(MessageDigest(sha256: token.utf8).bytes)
    }
}

/// The kind of request that a challenge is valid for.
public enum ChallengePurpose: String, Sendable {
    /// An anonymous user's request.
    case anonymousRequest = "anonymous_request"
    /// A biometric request.
    case biometricRequest = "biometric_request"
    /// An app that logs another app in.
    case app2appRequest = "app2app_request"
    /// A locker assertion.
    case lockerRequest = "locker_request"
    /// An administrator's enrolment of a presence broker's approval key.
    case approvalKeyRequest = "approval_key_request"
}

/// Challenges in a database, for servers of one or several processes.
public struct DatabaseChallengeStore: ChallengeStore {
    private let database: any SQLDatabase
    private let clock: WallClock

    /// Creates a store.
    ///
    /// - Parameter database: A database with the tables of ``migrations``.
    public init(_ database: any SQLDatabase) {
        self.init(database, clock: database.clock)
    }

    package init(_ database: any SQLDatabase, clock: WallClock) {
        self.database = database
        self.clock = clock
    }

    /// The migration that creates the table.
    public static let migrations = [
        SQLMigration(
            "latchkey challenges 1",
            sqlite: """
                CREATE TABLE latchkey_challenge (
                    digest BLOB PRIMARY KEY NOT NULL,
                    purpose TEXT NOT NULL,
                    expires_at REAL NOT NULL
                ) STRICT, WITHOUT ROWID;
                CREATE INDEX latchkey_challenge_expiry ON latchkey_challenge (expires_at);
                """,
            postgreSQL: """
                CREATE TABLE latchkey_challenge (
                    digest BYTEA PRIMARY KEY NOT NULL,
                    purpose TEXT NOT NULL,
                    expires_at DOUBLE PRECISION NOT NULL
                );
                CREATE INDEX latchkey_challenge_expiry ON latchkey_challenge (expires_at);
                """)
    ]

    public func issue(_ purpose: ChallengePurpose) async throws -> Challenge {
        let clock = clock
        return try await database.write { database in
            let now = clock.timestamp(in: database)
            let challenge = Challenge(purpose, at: now)
            try database.execute([
                database.deletionOfExpired(from: "latchkey_challenge", key: "digest", at: now),
                """
                INSERT INTO latchkey_challenge (digest, purpose, expires_at)
                VALUES (\(Challenge.digest(challenge.token)), \(purpose.rawValue),
                    \(challenge.expiresAt.timeIntervalSince1970))
                """,
            ])
            return challenge
        }
    }

    public func consume(_ token: String, for purpose: ChallengePurpose) async throws -> Bool {
        let clock = clock
        return try await database.write { database in
            // One statement finds and deletes the row, so that only one of two concurrent calls
            // gets it.
            let row = try database.row(
                """
                DELETE FROM latchkey_challenge WHERE digest = \(Challenge.digest(token))
                RETURNING purpose = \(purpose.rawValue) AND expires_at > \(clock.timestamp(in: database)) AS is_valid
                """)
            return try row?.bool("is_valid") ?? false
        }
    }
}

/// A source of the time. Tests replace it.
package struct WallClock: Sendable {
    private let read: @Sendable () -> Date
    /// Whether a transaction takes the database's time instead.
    private let followsDatabase: Bool

    package init(_ read: @escaping @Sendable () -> Date) {
        self.read = read
        followsDatabase = false
    }

    /// The system's clock plus an offset in seconds, or in a transaction the database's clock.
    package init(offset: @escaping @Sendable () -> TimeInterval) {
        read = { Date().addingTimeInterval(offset()) }
        followsDatabase = true
    }

    /// The system's clock.
    package static let system = WallClock(offset: { 0 })

    /// The current time.
    package var now: Date { read() }

    /// The current time in seconds since 1970.
    package var timestamp: TimeInterval { now.timeIntervalSince1970 }

    /// The time in a transaction, in seconds since 1970: several servers compare times of the same
    /// clock.
    package func timestamp(in connection: any SQLConnection) -> TimeInterval {
        followsDatabase ? connection.now ?? timestamp : timestamp
    }

    /// The time in a transaction after it waited for a lock: reads the database's clock again.
    package func timestamp(rereadIn connection: any SQLConnection) throws -> TimeInterval {
        guard
            followsDatabase, connection.dialect == .postgreSQL,
            let row = try connection.row(
                "SELECT extract(epoch FROM clock_timestamp())::double precision AS now")
        else { return timestamp(in: connection) }
        return try row.real("now")
    }

    /// The current time in whole seconds since 1970, rounded down, as in JSON Web Tokens.
    package var seconds: Int { Int(timestamp.rounded(.down)) }
}
