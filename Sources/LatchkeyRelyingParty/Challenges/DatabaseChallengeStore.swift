internal import FoundationEssentials
public import GRDB

/// Challenges in SQLite: they survive the process, and serve several processes on one file.
public struct DatabaseChallengeStore: ChallengeStore {
    private let database: any DatabaseWriter
    private let clock: WallClock
    private let random: RandomSource

    /// - Parameter database: One that has gone through ``registerMigrations(_:)``.
    public init(_ database: any DatabaseWriter, clock: WallClock = .system, random: RandomSource = .system) {
        self.database = database
        self.clock = clock
        self.random = random
    }

    /// Adds the table to a migrator.
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
        // One statement both finds and removes: of two that try at once, one gets the row.
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
