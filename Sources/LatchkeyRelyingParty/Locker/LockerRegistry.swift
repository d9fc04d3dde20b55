public import FoundationEssentials
public import GRDB
public import Latchkey
internal import LatchkeyJOSE

/// The enrolled devices of one project, with their keys and the server's level shares, in a database.
///
/// Each call is one transaction, also with several servers on one database. It takes effect completely, or throws and has no effect.
/// After ``SQLFailure`` with the code `outcomeUnknown`, it took effect completely or not at all. All calls can throw ``SQLFailure``.
/// Calls that return enrolments or shares throw `KeystoreError` with code `damaged` if a row cannot be decoded or unsealed.
///
/// The keys come from assertions that ``LockerRequestVerifier`` verified. The shares are sealed with AES-256-GCM and a key that
/// need not be in the database. Other tables may refer to `latchkey_locker_enrolment (id)` with `ON DELETE CASCADE`, to delete
/// dependent rows in the same transaction. <doc:Tables> describes the tables.
public struct LockerRegistry: Sendable {
    private let database: any SQLDatabase
    private let project: String
    private let seal: LevelShareSeal

    /// Creates a registry.
    ///
    /// - Parameters:
    ///   - database: A database with the tables of ``migrations``; SQLite with foreign keys enforced, GRDB's default.
    ///   - project: Projects on the same database do not see each other's enrolments.
    ///   - shareKey: The 32 bytes that seal the shares. An attacker with this key and the database can read the shares.
    /// - Throws: `KeystoreError` with code `invalidInput` if `shareKey` has another length.
    public init(_ database: any SQLDatabase, project: String, shareKey: SecretBytes) throws {
        self.database = database
        self.project = project
        seal = try LevelShareSeal(key: shareKey)
    }

    /// Creates a registry in SQLite.
    ///
    /// - Parameters:
    ///   - database: A database with the migrations of ``registerMigrations(_:)``, with foreign keys enforced, GRDB's default.
    ///   - project: Projects on the same database do not see each other's enrolments.
    ///   - shareKey: The 32 bytes that seal the shares. An attacker with this key and the database can read the shares.
    /// - Throws: `KeystoreError` with code `invalidInput` if `shareKey` has another length.
    public init(_ database: any DatabaseWriter, project: String, shareKey: SecretBytes) throws {
        try self.init(SQLiteDatabase(database), project: project, shareKey: shareKey)
    }

    /// The migrations that create the tables.
    public static let migrations = [
        SQLMigration(
            "latchkey locker 1",
            sqlite: """
                CREATE TABLE latchkey_locker_enrolment (
                    id TEXT PRIMARY KEY NOT NULL,
                    project TEXT NOT NULL,
                    user_id TEXT NOT NULL,
                    client_id TEXT NOT NULL,
                    kid TEXT NOT NULL,
                    jwk TEXT NOT NULL,
                    device_info TEXT NOT NULL,
                    background_share BLOB,
                    active_share BLOB,
                    created_at REAL NOT NULL,
                    CHECK ((background_share IS NULL) = (active_share IS NULL))
                ) STRICT;
                CREATE INDEX latchkey_locker_enrolment_user
                    ON latchkey_locker_enrolment (project, user_id, created_at);
                CREATE TABLE latchkey_locker_easy_access_key (
                    enrolment_id TEXT NOT NULL REFERENCES latchkey_locker_enrolment (id) ON DELETE CASCADE,
                    kid TEXT NOT NULL,
                    jwk TEXT NOT NULL,
                    PRIMARY KEY (enrolment_id, kid)
                ) STRICT, WITHOUT ROWID;
                """),
        SQLMigration(
            "latchkey locker 2", sqlite: "ALTER TABLE latchkey_locker_enrolment ADD COLUMN last_used_at REAL"),
        SQLMigration(
            "latchkey locker 3",
            sqlite: """
                ALTER TABLE latchkey_locker_enrolment ADD COLUMN attestation TEXT;
                ALTER TABLE latchkey_locker_easy_access_key ADD COLUMN attestation TEXT;
                """),
    ]

    /// Registers the migrations that create the tables in SQLite.
    public static func registerMigrations(_ migrator: inout DatabaseMigrator) { migrator.register(migrations) }

    /// The lock of an enrolment, for a transaction whose changes depend on its keys.
    package static func lock(_ id: String, in database: any SQLConnection) throws {
        try database.lock("latchkey enrolment \(id)")
    }

    /// Enrols a device.
    ///
    /// Enrolments of the same user wait for each other, so that several servers cannot exceed the limit together.
    ///
    /// - Parameters:
    ///   - enrolment: A new enrolment, without ``LockerEnrolment/lastUsedAt``.
    ///   - shares: The server's shares, which never change; nil if the server stores none.
    ///   - limit: The maximum number of the user's enrolments, including this one.
    /// - Throws: ``LockerRequestError`` with code `enrolmentLimit` if the user has this many already, or `keyTaken` if
    ///   the device key is enrolled already.
    public func add(_ enrolment: LockerEnrolment, shares: LevelShares?, limit: Int) async throws {
        let jwk = try CanonicalJSON.text(JWK(enrolment.deviceKey.publicKey, kid: enrolment.deviceKey.kid))
        let info = try CanonicalJSON.text(enrolment.info.json)
        let sealed = try shares.map { try seal.seal($0, of: enrolment.id) }
        let attestation = try enrolment.deviceKey.attestation.map { try CanonicalJSON.text($0) }
        try await database.write { database in
            try database.lock("latchkey enrolments of \(enrolment.userID)")
            guard try count(of: enrolment.userID, in: database) < limit else {
                throw LockerRequestError(.enrolmentLimit, "the user has \(limit) enrolments already")
            }
            let (key, created) = (enrolment.deviceKey.kid.rawValue, enrolment.createdAt.timeIntervalSince1970)
            let inserted = try database.execute(
                """
                INSERT INTO latchkey_locker_enrolment (
                    id, project, user_id, client_id, kid, jwk, device_info, background_share, active_share, created_at,
                    attestation
                ) VALUES (
                    \(enrolment.id), \(project), \(enrolment.userID), \(enrolment.clientID), \(key), \(jwk), \(info),
                    \(sealed?.background), \(sealed?.active), \(created), \(attestation)
                ) ON CONFLICT (id) DO NOTHING
                """)
            guard inserted == 1 else {
                throw LockerRequestError(.keyTaken, "the device key is enrolled already")
            }
            for key in enrolment.easyAccessKeys { try Self.insert(key, of: enrolment.id, in: database) }
        }
    }

    /// Returns the enrolment with this ID; nil if this project has none.
    public func enrolment(id: String) async throws -> LockerEnrolment? {
        try await database.read { try enrolment(id, in: $0) }
    }

    /// Returns a user's enrolments, oldest first.
    public func enrolments(of userID: String) async throws -> [LockerEnrolment] {
        try await database.read { try enrolments("user_id = \(userID) ORDER BY created_at, id", in: $0) }
    }

    /// Returns the shares of an enrolment; nil if none are stored.
    ///
    /// - Throws: ``LockerRequestError`` with code `enrolmentRevoked` if there is no such enrolment; `KeystoreError` with code
    ///   `damaged` if the shares were sealed with another key or for another enrolment, or were changed.
    public func levelShares(of id: String) async throws -> LevelShares? {
        let sealed = try await database.read { database -> (background: Data?, active: Data?)? in
            try database.row(
                """
                SELECT background_share, active_share FROM latchkey_locker_enrolment
                WHERE project = \(project) AND id = \(id)
                """
            ).map { (try $0.optionalBlob("background_share"), try $0.optionalBlob("active_share")) }
        }
        guard let sealed else { throw Self.revoked }
        guard let background = sealed.background, let active = sealed.active else { return nil }
        return try seal.open(background: background, active: active, of: id)
    }

    /// Adds an easy-access key. Adding the same key again changes nothing.
    ///
    /// - Throws: ``LockerRequestError`` with code `enrolmentRevoked` if there is no such enrolment, `easyAccessLimit`
    ///   if it has ``LockerEnrolment/maximumEasyAccessKeys`` other keys, or `keyTaken` if another key of the enrolment
    ///   has this name, or this key has another name.
    public func addEasyAccessKey(_ key: LockerKey, to id: String) async throws {
        try await database.write { database in
            try Self.lock(id, in: database)
            guard let enrolment = try enrolment(id, in: database) else { throw Self.revoked }
            guard !enrolment.easyAccessKeys.contains(where: { $0.kid == key.kid && $0.publicKey == key.publicKey })
            else { return }
            let others = [enrolment.deviceKey] + enrolment.easyAccessKeys
            guard !others.contains(where: { $0.kid == key.kid || $0.publicKey == key.publicKey }) else {
                throw LockerRequestError(
                    .keyTaken, "another key of the enrolment has this name, or this key has another name")
            }
            guard enrolment.easyAccessKeys.count < LockerEnrolment.maximumEasyAccessKeys else {
                throw LockerRequestError(
                    .easyAccessLimit, "the enrolment has the maximum number of easy-access keys")
            }
            try Self.insert(key, of: id, in: database)
        }
    }

    /// Removes the easy-access key of this name, or all easy-access keys without a name. Does nothing if no key
    /// matches.
    public func removeEasyAccessKeys(named kid: KeyID?, of id: String) async throws {
        try await database.write {
            try Self.lock(id, in: $0)
            try $0.execute(
                """
                DELETE FROM latchkey_locker_easy_access_key WHERE kid = coalesce(\(kid?.rawValue), kid) AND
                    enrolment_id IN
                    (SELECT id FROM latchkey_locker_enrolment WHERE project = \(project) AND id = \(id))
                """)
        }
    }

    /// Records that the device got tokens or shares. Does nothing if there is no such enrolment.
    public func recordUse(of id: String, at time: Date) async throws {
        try await database.write {
            try $0.execute(
                """
                UPDATE latchkey_locker_enrolment SET last_used_at = \(time.timeIntervalSince1970)
                WHERE project = \(project) AND id = \(id)
                """)
        }
    }

    /// Deletes an enrolment, its keys and its shares.
    ///
    /// - Returns: Whether there was such an enrolment.
    @discardableResult
    public func remove(id: String) async throws -> Bool {
        try await database.write { database in
            try Self.lock(id, in: database)
            return try database.execute(
                "DELETE FROM latchkey_locker_enrolment WHERE project = \(project) AND id = \(id)") == 1
        }
    }
}

extension LockerRegistry {
    private static let revoked = LockerRequestError(.enrolmentRevoked, "there is no such enrolment")

    private func enrolment(_ id: String, in database: any SQLConnection) throws -> LockerEnrolment? {
        try enrolments("id = \(id)", in: database).first
    }

    private func enrolments(_ condition: SQLText, in database: any SQLConnection) throws -> [LockerEnrolment] {
        try database.rows(
            "SELECT * FROM latchkey_locker_enrolment WHERE project = \(project) AND \(condition)"
        ).map { try Self.enrolment($0, in: database) }
    }

    private func count(of userID: String, in database: any SQLConnection) throws -> Int {
        try database.row(
            """
            SELECT count(*) AS count FROM latchkey_locker_enrolment
            WHERE project = \(project) AND user_id = \(userID)
            """
        )?.integer("count") ?? 0
    }

    private static func enrolment(_ row: SQLRow, in database: any SQLConnection) throws -> LockerEnrolment {
        let id = try row.text("id")
        let keys = try database.rows(
            """
            SELECT kid, jwk, attestation FROM latchkey_locker_easy_access_key WHERE enrolment_id = \(id) ORDER BY kid
            """)
        guard let info = DeviceInfo(try CanonicalJSON.decode(JSONValue.self, from: row.text("device_info"))) else {
            throw damaged
        }
        return LockerEnrolment(
            id: id, userID: try row.text("user_id"), clientID: try row.text("client_id"), deviceKey: try key(row),
            easyAccessKeys: try keys.map(key), info: info,
            createdAt: Date(timeIntervalSince1970: try row.real("created_at")),
            lastUsedAt: try row.optionalReal("last_used_at").map { Date(timeIntervalSince1970: $0) })
    }

    private static func key(_ row: SQLRow) throws -> LockerKey {
        let jwk = try CanonicalJSON.decode(JWK.self, from: row.text("jwk"))
        guard let kid = KeyID(rawValue: try row.text("kid")) else { throw damaged }
        return LockerKey(kid: kid, publicKey: try jwk.publicKey(), attestation: try AttestationRecord(row))
    }

    private static func insert(_ key: LockerKey, of id: String, in database: any SQLConnection) throws {
        let jwk = try CanonicalJSON.text(JWK(key.publicKey, kid: key.kid))
        let attestation = try key.attestation.map { try CanonicalJSON.text($0) }
        try database.execute(
            """
            INSERT INTO latchkey_locker_easy_access_key (enrolment_id, kid, jwk, attestation)
            VALUES (\(id), \(key.kid.rawValue), \(jwk), \(attestation))
            """)
    }

    private static var damaged: KeystoreError {
        KeystoreError(
            operation: "read an enrolment", code: .damaged, reason: "its database row is damaged",
            recovery: "Restore the database from a backup, or revoke the enrolment and enrol the device again.")
    }
}

/// A device that is enrolled for a user, with its keys: a row of `latchkey_locker_enrolment`.
public struct LockerEnrolment: Hashable, Sendable, Identifiable {
    /// The maximum number of easy-access keys. A change of the key adds the new one before it removes the old one.
    public static let maximumEasyAccessKeys = 2

    /// The SHA-256 thumbprint of the device key (RFC 7638 section 3), 43 characters of base64url: the device can
    /// compute it before it is enrolled. Older enrolments have a UUID.
    public let id: String
    /// The user who owns the device.
    public let userID: String
    /// The client that enrolled the device. Other clients cannot use the enrolment.
    public let clientID: String
    /// The key that authenticates the device, but not its user.
    public let deviceKey: LockerKey
    /// The keys that authenticate the device and its user, at most ``maximumEasyAccessKeys``, sorted by name.
    public let easyAccessKeys: [LockerKey]
    /// The device's description of itself at the enrolment.
    public let info: DeviceInfo
    /// The time of the enrolment.
    public let createdAt: Date
    /// The time when the device last got tokens or shares; nil for never.
    public let lastUsedAt: Date?

    /// Creates an enrolment.
    ///
    /// - Parameters:
    ///   - id: nil for the thumbprint of the device key.
    ///   - userID: The ID of the user in the server's own table.
    ///   - clientID: The OAuth client that enrols the device.
    ///   - deviceKey: The verified key that authenticates the device.
    ///   - easyAccessKeys: The verified keys that authenticate the device and its user, sorted by name, at most
    ///     ``maximumEasyAccessKeys``. A new enrolment has none.
    ///   - info: The device's description of itself.
    ///   - createdAt: The time of the enrolment.
    ///   - lastUsedAt: nil for a new enrolment. ``LockerRegistry/recordUse(of:at:)`` changes it.
    public init(
        id: String? = nil, userID: String, clientID: String, deviceKey: LockerKey,
        easyAccessKeys: [LockerKey] = [], info: DeviceInfo, createdAt: Date, lastUsedAt: Date? = nil
    ) {
        self.id = id ?? deviceKey.publicKey.thumbprint
        self.userID = userID
        self.clientID = clientID
        self.deviceKey = deviceKey
        self.easyAccessKeys = easyAccessKeys
        self.info = info
        self.createdAt = createdAt
        self.lastUsedAt = lastUsedAt
    }
}

/// A named public key of an enrolled device: ES256, on the curve P-256.
public struct LockerKey: Hashable, Sendable {
    /// The name of the key, unique within its enrolment.
    public let kid: KeyID
    /// The public key.
    public let publicKey: PublicKey
    /// The proof that the key is in hardware, if the server verified one.
    package var attestation: AttestationRecord?

    /// Creates a key.
    ///
    /// - Parameters:
    ///   - kid: 8 to 64 characters of `A-Z a-z 0-9 _ -`.
    ///   - publicKey: A key on P-256.
    public init(kid: KeyID, publicKey: PublicKey) {
        self.init(kid: kid, publicKey: publicKey, attestation: nil)
    }

    package init(kid: KeyID, publicKey: PublicKey, attestation: AttestationRecord?) {
        self.kid = kid
        self.publicKey = publicKey
        self.attestation = attestation
    }
}
