package import FoundationEssentials
package import GRDB
package import Latchkey

/// The approval keys of presence brokers, each bound to the TPM that contains it, in a database.
///
/// An attestation key and an approval key are in the same TPM if both were activated under the same endorsement key. Of an
/// endorsement key, only a digest is stored.
package struct DatabaseApprovalKeyRegistry: ApprovalKeyRegistry {
    private let database: any SQLDatabase
    private let clock: WallClock

    /// - Parameter database: A database with the tables of ``migrations``.
    package init(_ database: any SQLDatabase, clock: WallClock) {
        self.database = database
        self.clock = clock
    }

    package init(_ database: any DatabaseWriter, clock: WallClock = .system) {
        self.init(SQLiteDatabase(database), clock: clock)
    }

    /// Creates the tables.
    package static let migrations = [
        SQLMigration(
            "latchkey approval keys 1",
            sqlite: """
                CREATE TABLE latchkey_attestation_key (
                    thumbprint TEXT PRIMARY KEY NOT NULL,
                    endorsement BLOB NOT NULL,
                    expires_at REAL NOT NULL
                ) STRICT, WITHOUT ROWID;
                CREATE INDEX latchkey_attestation_key_expiry ON latchkey_attestation_key (expires_at);
                CREATE TABLE latchkey_approval_key (
                    endorsement BLOB NOT NULL,
                    name BLOB NOT NULL,
                    enrolled_at REAL NOT NULL,
                    PRIMARY KEY (endorsement, name)
                ) STRICT, WITHOUT ROWID;
                """),
        SQLMigration(
            "latchkey approval keys 2",
            sqlite: "ALTER TABLE latchkey_attestation_key ADD COLUMN is_simulated INTEGER NOT NULL DEFAULT 0",
            postgreSQL: "ALTER TABLE latchkey_attestation_key ADD COLUMN is_simulated BOOLEAN NOT NULL DEFAULT false"),
    ]

    /// Registers the migrations that create the tables in SQLite.
    package static func registerMigrations(_ migrator: inout DatabaseMigrator) { migrator.register(migrations) }

    /// Records the endorsement key under which an attestation key was activated.
    ///
    /// The owner of a simulator can activate any attestation key there. So a simulator's endorsement key does not replace that of
    /// a TPM.
    ///
    /// - Parameters:
    ///   - endorsement: SHA-256 of the endorsement key, 32 bytes.
    ///   - isSimulated: Whether the endorsement key is a simulator's.
    ///   - expiresAt: The end of the attestation key's certificate. Then the record is deleted.
    package func record(
        _ attestationKey: PublicKey, in endorsement: Data, isSimulated: Bool, until expiresAt: Date
    ) async throws {
        let clock = clock
        try await database.write { database in
            let now = clock.timestamp(in: database)
            try database.deleteExpired(from: "latchkey_attestation_key", at: now)
            try database.execute(
                """
                INSERT INTO latchkey_attestation_key (thumbprint, endorsement, is_simulated, expires_at)
                VALUES (\(attestationKey.thumbprint), \(endorsement), \(isSimulated),
                    \(expiresAt.timeIntervalSince1970))
                ON CONFLICT (thumbprint) DO UPDATE
                SET endorsement = excluded.endorsement, is_simulated = excluded.is_simulated,
                    expires_at = excluded.expires_at
                WHERE latchkey_attestation_key.is_simulated >= excluded.is_simulated
                """)
        }
    }

    /// Enrols an approval key, whose creation in the TPM of an attestation key was verified.
    ///
    /// - Parameter name: The Name of the approval key, 34 bytes.
    /// - Returns: Whether the attestation key is known. Otherwise nothing is stored.
    @discardableResult
    package func enrol(_ name: Data, inTPMOf attestationKey: PublicKey) async throws -> Bool {
        let clock = clock
        return try await database.write { database in
            let now = clock.timestamp(in: database)
            try database.execute(
                """
                INSERT INTO latchkey_approval_key (endorsement, name, enrolled_at)
                SELECT endorsement, \(name), \(now) FROM latchkey_attestation_key
                WHERE thumbprint = \(attestationKey.thumbprint) AND expires_at > \(now)
                ON CONFLICT DO NOTHING
                """)
            return try Self.isKnown(name, attestationKey, now, in: database)
        }
    }

    /// Removes an approval key from all TPMs.
    ///
    /// - Returns: Whether the key was enrolled.
    @discardableResult
    package func remove(_ name: Data) async throws -> Bool {
        try await database.write { try $0.execute("DELETE FROM latchkey_approval_key WHERE name = \(name)") > 0 }
    }

    /// The enrolled approval keys, oldest first, with the time of the enrolment in seconds since 1970.
    package func all() async throws -> [(name: Data, enrolledAt: Double)] {
        try await database.read {
            try $0.rows(
                "SELECT name, MIN(enrolled_at) AS enrolled_at FROM latchkey_approval_key GROUP BY name ORDER BY 2, 1"
            ).map { (try $0.blob("name"), try $0.real("enrolled_at")) }
        }
    }

    /// Whether an approval key is enrolled, for any TPM.
    package func isEnrolled(_ name: Data) async throws -> Bool {
        try await database.read {
            try $0.row("SELECT 1 FROM latchkey_approval_key WHERE name = \(name) LIMIT 1") != nil
        }
    }

    package func isApprovalKey(_ name: Data, inTPMOf attestationKey: PublicKey) async throws -> Bool {
        let clock = clock
        return try await database.read {
            try Self.isKnown(name, attestationKey, clock.timestamp(in: $0), in: $0)
        }
    }

    private static func isKnown(
        _ name: Data, _ attestationKey: PublicKey, _ now: Double, in database: any SQLConnection
    ) throws -> Bool {
        try database.row(
            """
            SELECT 1 FROM latchkey_attestation_key JOIN latchkey_approval_key USING (endorsement)
            WHERE thumbprint = \(attestationKey.thumbprint) AND expires_at > \(now) AND name = \(name) LIMIT 1
            """) != nil
    }
}
