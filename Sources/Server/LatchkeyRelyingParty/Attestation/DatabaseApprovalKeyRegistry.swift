public import FoundationEssentials
public import Latchkey

/// The approval keys of presence brokers, each bound to the TPM that contains it, in a database.
///
/// ``EndorsementAuthority/certificate(for:secret:recordingIn:)`` records the TPM of an attestation
/// key when it issues the certificate. ``enrol(_:challenge:of:verifiedBy:acceptsSimulated:)`` then
/// enrols the approval key of a presence broker. Attestation keys are in the same TPM if they were
/// activated under the same endorsement key, and an approval key is in the TPM of the attestation
/// key that certified it. The registry stores only a digest of an endorsement key. The digest
/// identifies a machine permanently.
///
/// Each call is one transaction, also with several servers on one database, and can throw
/// ``SQLFailure``. <doc:Tables> describes the tables.
public struct DatabaseApprovalKeyRegistry: ApprovalKeyRegistry {
    private let database: any SQLDatabase
    private let clock: WallClock

    /// Creates a registry.
    ///
    /// - Parameter database: A database with the tables of ``migrations``.
    public init(_ database: any SQLDatabase) {
        self.init(database, clock: database.clock)
    }

    package init(_ database: any SQLDatabase, clock: WallClock) {
        self.database = database
        self.clock = clock
    }

    /// The migration that creates the tables.
    public static let migrations = [
        SQLMigration(
            "latchkey approval keys 1",
            sqlite: """
                CREATE TABLE latchkey_attestation_key (
                    thumbprint TEXT PRIMARY KEY NOT NULL,
                    endorsement BLOB NOT NULL,
                    expires_at REAL NOT NULL,
                    is_simulated INTEGER NOT NULL
                ) STRICT, WITHOUT ROWID;
                CREATE INDEX latchkey_attestation_key_expiry ON latchkey_attestation_key (expires_at);
                CREATE TABLE latchkey_approval_key (
                    endorsement BLOB NOT NULL,
                    name BLOB NOT NULL,
                    enrolled_at REAL NOT NULL,
                    PRIMARY KEY (endorsement, name)
                ) STRICT, WITHOUT ROWID;
                """,
            postgreSQL: """
                CREATE TABLE latchkey_attestation_key (
                    thumbprint TEXT PRIMARY KEY NOT NULL,
                    endorsement BYTEA NOT NULL,
                    expires_at DOUBLE PRECISION NOT NULL,
                    is_simulated BOOLEAN NOT NULL
                );
                CREATE INDEX latchkey_attestation_key_expiry ON latchkey_attestation_key (expires_at);
                CREATE TABLE latchkey_approval_key (
                    endorsement BYTEA NOT NULL,
                    name BYTEA NOT NULL,
                    enrolled_at DOUBLE PRECISION NOT NULL,
                    PRIMARY KEY (endorsement, name)
                );
                """)
    ]

    /// Records the endorsement key under which an attestation key was activated.
    ///
    /// The owner of a simulator can activate any attestation key there. So a simulator's
    /// endorsement key does not replace that of a TPM. Otherwise the last call for an attestation
    /// key replaces the record. Also deletes at most 100 expired records.
    ///
    /// - Parameters:
    ///   - attestationKey: ``PendingActivation/attestationKey``, after the secret of the activation
    ///     was checked.
    ///   - endorsement: ``PendingActivation/endorsementKeyDigest``, 32 bytes.
    ///   - isSimulated: ``PendingActivation/isSimulated``.
    ///   - expiresAt: The end of the attestation key's certificate. The record is not valid after
    ///     it.
    package func record(
        _ attestationKey: PublicKey, in endorsement: Data, isSimulated: Bool, until expiresAt: Date
    ) async throws {
        guard endorsement.count == 32 else {
            throw AttestationError(
                .malformed, "the digest of the endorsement key does not have 32 bytes")
        }
        let clock = clock
        try await database.write { database in
            let now = clock.timestamp(in: database)
            try database.execute(
                database.deletionOfExpired(
                    from: "latchkey_attestation_key", key: "thumbprint", at: now))
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

    /// Enrols the approval key of a presence broker for the TPM that contains it. Enrolling a key
    /// again changes nothing.
    ///
    /// The challenge is used, also if the statement is refused. **The statement does not show that
    /// the key is a presence broker's**: authenticate the administrator who claims this before.
    ///
    /// - Parameters:
    ///   - statement: A TPM's statement about the approval key. Its qualifying data are the bytes
    ///     of the challenge.
    ///   - challenge: A token with the purpose ``ChallengePurpose/approvalKeyRequest``.
    ///   - challenges: The store that issued it.
    ///   - verifier: A verifier whose anchors `aik` contain the certificate of the authority's
    ///     issuer.
    ///   - acceptsSimulated: Whether the TPM may be a simulator.
    /// - Returns: The Name of the key, 34 bytes.
    /// - Throws: ``AttestationError``: with code `wrongChallenge` if the challenge is unknown,
    ///   used, expired or for another purpose, or with code `untrustedAttestationKey` also if no
    ///   valid record of the attestation key exists; or the stores' errors.
    @discardableResult
    public func enrol(
        _ statement: AttestationStatement, challenge: String, of challenges: any ChallengeStore,
        verifiedBy verifier: AttestationVerifier, acceptsSimulated: Bool
    ) async throws -> Data {
        guard try await challenges.consume(challenge, for: .approvalKeyRequest) else {
            throw AttestationError(
                .wrongChallenge, "the challenge is unknown, used, expired or for another purpose")
        }
        let key = try await verifier.verifyApprovalKey(
            statement, challenge: Data(challenge.utf8), acceptsSimulated: acceptsSimulated)
        guard try await enrol(key.name, inTPMOf: key.attestationKey) else {
            throw AttestationError(
                .untrustedAttestationKey, "the attestation key was not activated at this server")
        }
        return key.name
    }

    /// Enrols an approval key, whose creation in the TPM of an attestation key was verified
    /// (``AttestationVerifier/verifyApprovalKey(_:challenge:acceptsSimulated:)``). Enrolling a key
    /// again changes nothing.
    ///
    /// - Parameters:
    ///   - name: The Name of the approval key, 34 bytes.
    ///   - attestationKey: The attestation key that certified it.
    /// - Returns: Whether the attestation key is known. Otherwise nothing is stored.
    @discardableResult
    package func enrol(_ name: Data, inTPMOf attestationKey: PublicKey) async throws -> Bool {
        guard name.count == 34 else {
            throw AttestationError(.malformed, "the Name does not have 34 bytes")
        }
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

    /// Removes an approval key from all TPMs. It then proves no fingerprints.
    ///
    /// - Parameter name: The Name of the approval key, 34 bytes.
    /// - Returns: Whether the key was enrolled.
    @discardableResult
    public func remove(_ name: Data) async throws -> Bool {
        try await database.write {
            try $0.execute("DELETE FROM latchkey_approval_key WHERE name = \(name)") > 0
        }
    }

    /// Returns the enrolled approval keys, oldest first, with the time of their first enrolment in
    /// seconds since 1970.
    public func all() async throws -> [(name: Data, enrolledAt: Double)] {
        try await database.read {
            try $0.rows(
                "SELECT name, MIN(enrolled_at) AS enrolled_at FROM latchkey_approval_key GROUP BY name ORDER BY 2, 1"
            ).map { (try $0.blob("name"), try $0.real("enrolled_at")) }
        }
    }

    /// Returns whether an approval key is enrolled for any TPM, even if no attestation key of that
    /// TPM has a valid certificate.
    ///
    /// - Parameter name: The Name of the approval key, 34 bytes.
    public func isEnrolled(_ name: Data) async throws -> Bool {
        try await database.read { try isEnrolled(name, in: $0) }
    }

    /// The same in a transaction of the registry's database.
    package func isEnrolled(_ name: Data, in connection: any SQLConnection) throws -> Bool {
        try connection.row("SELECT 1 FROM latchkey_approval_key WHERE name = \(name) LIMIT 1")
            != nil
    }

    public func isApprovalKey(_ name: Data, inTPMOf attestationKey: PublicKey) async throws -> Bool
    {
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
