package import FoundationEssentials
package import GRDB
package import Latchkey

/// The approval keys of presence brokers, each bound to the TPM that contains it, in SQLite.
///
/// An attestation key and an approval key are in the same TPM if both were activated under the same endorsement key. Of an
/// endorsement key, only a digest is stored.
package struct DatabaseApprovalKeyRegistry: ApprovalKeyRegistry {
    private let database: any DatabaseWriter
    private let clock: WallClock

    /// - Parameter database: A database with the migrations of ``registerMigrations(_:)``.
    package init(_ database: any DatabaseWriter, clock: WallClock = .system) {
        self.database = database
        self.clock = clock
    }

    /// Registers the migrations that create the tables.
    package static func registerMigrations(_ migrator: inout DatabaseMigrator) {
        migrator.registerMigration("latchkey approval keys 1") { database in
            try database.execute(
                sql: """
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
                    """)
        }
    }

    /// Records the endorsement key under which an attestation key was activated.
    ///
    /// - Parameters:
    ///   - endorsement: SHA-256 of the endorsement key, 32 bytes.
    ///   - expiresAt: The end of the attestation key's certificate. Then the record is deleted.
    package func record(_ attestationKey: PublicKey, in endorsement: Data, until expiresAt: Date) async throws {
        let now = clock.timestamp
        try await database.write {
            try $0.execute(
                literal: """
                    DELETE FROM latchkey_attestation_key WHERE expires_at <= \(now);
                    INSERT OR REPLACE INTO latchkey_attestation_key (thumbprint, endorsement, expires_at)
                        VALUES (\(attestationKey.thumbprint), \(endorsement), \(expiresAt.timeIntervalSince1970))
                    """)
        }
    }

    /// Enrols an approval key, whose creation in the TPM of an attestation key was verified.
    ///
    /// - Parameter name: The Name of the approval key, 34 bytes.
    /// - Returns: Whether the attestation key is known. Otherwise nothing is stored.
    @discardableResult
    package func enrol(_ name: Data, inTPMOf attestationKey: PublicKey) async throws -> Bool {
        let now = clock.timestamp
        return try await database.write { database in
            try database.execute(
                literal: """
                    INSERT OR IGNORE INTO latchkey_approval_key (endorsement, name, enrolled_at)
                        SELECT endorsement, \(name), \(now) FROM latchkey_attestation_key
                        WHERE thumbprint = \(attestationKey.thumbprint) AND expires_at > \(now)
                    """)
            return try Self.isKnown(name, attestationKey, now, in: database)
        }
    }

    /// Removes an approval key from all TPMs.
    ///
    /// - Returns: Whether the key was enrolled.
    @discardableResult
    package func remove(_ name: Data) async throws -> Bool {
        try await database.write { database in
            try database.execute(literal: "DELETE FROM latchkey_approval_key WHERE name = \(name)")
            return database.changesCount > 0
        }
    }

    package func isApprovalKey(_ name: Data, inTPMOf attestationKey: PublicKey) async throws -> Bool {
        let now = clock.timestamp
        return try await database.read { try Self.isKnown(name, attestationKey, now, in: $0) }
    }

    private static func isKnown(
        _ name: Data, _ attestationKey: PublicKey, _ now: Double, in database: Database
    ) throws -> Bool {
        let found: SQLRequest<Bool> = """
            SELECT EXISTS (
                SELECT 1 FROM latchkey_attestation_key JOIN latchkey_approval_key USING (endorsement)
                WHERE thumbprint = \(attestationKey.thumbprint) AND expires_at > \(now) AND name = \(name)
            )
            """
        return try found.fetchOne(database) ?? false
    }
}
