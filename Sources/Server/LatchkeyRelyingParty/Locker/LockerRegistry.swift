public import FoundationEssentials
public import Latchkey
internal import LatchkeyJOSE

/// The enrolled devices of one project, with their keys and the server's level shares, in a
/// database.
///
/// Each call is one transaction, also with several servers on one database. It takes effect
/// completely, or throws and has no effect. After ``SQLFailure`` with the code `outcomeUnknown`, it
/// took effect completely or not at all. All calls can throw ``SQLFailure``. Calls that return
/// enrolments or shares throw `KeystoreError` with code `damaged` if a row cannot be decoded or
/// unsealed.
///
/// The keys come from assertions that ``LockerRequestVerifier`` verified. The shares are sealed
/// with AES-256-GCM and a key that need not be in the database. <doc:Tables> describes the tables.
///
/// Calls that change an enrolment or return its shares take a ``LockerEnrolment``, and have no
/// effect on a device that another user has enrolled since. An ID from a request does not suffice,
/// because IDs are not secret.
///
/// To end a session with the enrolment or key that began it, your table of sessions refers to
/// `latchkey_locker_enrolment (id)` and to `latchkey_locker_easy_access_key (enrolment_id, kid)`
/// with `ON DELETE CASCADE`. Call ``lock(_:of:in:)`` or ``lock(_:in:)`` in the transaction that
/// stores the session (<doc:StoringDevices>).
public struct LockerRegistry: Sendable {
    let database: any SQLDatabase
    let project: String
    let seal: LevelShareSeal

    /// Creates a registry.
    ///
    /// - Parameters:
    ///   - database: A database with the tables of ``migrations``; SQLite with foreign keys
    ///     enforced, GRDB's default.
    ///   - project: Projects on the same database do not see each other's enrolments.
    ///   - shareKey: The 32 bytes that seal the shares. An attacker with this key and the database
    ///     can read the shares.
    /// - Throws: `KeystoreError` with code `invalidInput` if `shareKey` has another length.
    public init(_ database: any SQLDatabase, project: String, shareKey: SecretBytes) throws {
        self.database = database
        self.project = project
        seal = try LevelShareSeal(key: shareKey)
    }

    /// The migration that creates the tables.
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
                    last_used_at REAL,
                    attestation TEXT,
                    CHECK ((background_share IS NULL) = (active_share IS NULL))
                ) STRICT;
                CREATE INDEX latchkey_locker_enrolment_user
                    ON latchkey_locker_enrolment (project, user_id, created_at);
                CREATE TABLE latchkey_locker_easy_access_key (
                    enrolment_id TEXT NOT NULL REFERENCES latchkey_locker_enrolment (id) ON DELETE CASCADE,
                    kid TEXT NOT NULL,
                    jwk TEXT NOT NULL,
                    attestation TEXT,
                    PRIMARY KEY (enrolment_id, kid)
                ) STRICT, WITHOUT ROWID;
                """,
            postgreSQL: """
                CREATE TABLE latchkey_locker_enrolment (
                    id TEXT PRIMARY KEY NOT NULL,
                    project TEXT NOT NULL,
                    user_id TEXT NOT NULL,
                    client_id TEXT NOT NULL,
                    kid TEXT NOT NULL,
                    jwk TEXT NOT NULL,
                    device_info TEXT NOT NULL,
                    background_share BYTEA,
                    active_share BYTEA,
                    created_at DOUBLE PRECISION NOT NULL,
                    last_used_at DOUBLE PRECISION,
                    attestation TEXT,
                    CHECK ((background_share IS NULL) = (active_share IS NULL))
                );
                CREATE INDEX latchkey_locker_enrolment_user
                    ON latchkey_locker_enrolment (project, user_id, created_at);
                CREATE TABLE latchkey_locker_easy_access_key (
                    enrolment_id TEXT NOT NULL REFERENCES latchkey_locker_enrolment (id) ON DELETE CASCADE,
                    kid TEXT NOT NULL,
                    jwk TEXT NOT NULL,
                    attestation TEXT,
                    PRIMARY KEY (enrolment_id, kid)
                );
                """)
    ]

    /// Confirms that an enrolment still exists, in the transaction that stores a session of
    /// background access. It cannot be deleted until the transaction ends.
    ///
    /// - Parameters:
    ///   - enrolment: The result of
    ///     ``LockerRequestVerifier/verifyDevice(_:for:audience:enrolmentID:)``.
    ///   - connection: A transaction of ``SQLDatabase/write(_:)`` of the registry's database.
    /// - Throws: ``LockerRequestError`` with code `enrolmentRevoked` if it was deleted since. Let
    ///   the transaction fail.
    public func lock(_ enrolment: LockerEnrolment, in connection: any SQLConnection) throws {
        _ = try current(enrolment, in: connection)
    }

    /// Confirms that an easy-access key still exists, in the transaction that stores its session.
    /// It cannot be removed until the transaction ends.
    ///
    /// - Parameters:
    ///   - key: The key of ``LockerRequestVerifier/verifyEasyAccess(_:audience:)``.
    ///   - enrolment: The enrolment of the same result.
    ///   - connection: A transaction of ``SQLDatabase/write(_:)`` of the registry's database.
    /// - Throws: ``LockerRequestError`` with code `enrolmentRevoked` or `easyAccessRevoked` if the
    ///   enrolment or the key was deleted since. Let the transaction fail.
    public func lock(
        _ key: LockerKey, of enrolment: LockerEnrolment, in connection: any SQLConnection
    ) throws {
        let keys = try current(enrolment, in: connection).easyAccessKeys
        guard keys.contains(where: { $0.kid == key.kid && $0.publicKey == key.publicKey }) else {
            throw LockerRequestError(.easyAccessRevoked, "the easy-access key was removed")
        }
    }

    /// The lock of an enrolment, for a transaction whose changes depend on its keys.
    package static func lock(_ id: String, in database: any SQLConnection) throws {
        try database.lock("latchkey enrolment \(id)")
    }

    /// Enrols a device.
    ///
    /// Enrolments of the same user wait for each other, so that several servers cannot exceed the
    /// limit together.
    ///
    /// - Parameters:
    ///   - enrolment: A new enrolment.
    ///   - shares: The server's shares, which never change; nil if the server stores none.
    ///   - limit: The maximum number of the user's enrolments, including this one.
    /// - Throws: ``LockerRequestError`` with code `enrolmentLimit` if the user has this many
    ///   already, or `keyTaken` if the device key is enrolled already.
    public func add(_ enrolment: LockerEnrolment, shares: LevelShares?, limit: Int) async throws {
        try await database.write { try add(enrolment, shares: shares, limit: limit, in: $0) }
    }

    /// Enrols a device, as ``add(_:shares:limit:)``, in a transaction of the registry's database:
    /// the one that confirms that the session still exists which requests it. If it throws, let the
    /// transaction fail.
    public func add(
        _ enrolment: LockerEnrolment, shares: LevelShares?, limit: Int,
        in connection: any SQLConnection
    ) throws {
        try Self.requireDistinctKeys(enrolment)
        let jwk = try CanonicalJSON.text(
            JWK(enrolment.deviceKey.publicKey, kid: enrolment.deviceKey.kid))
        let info = try CanonicalJSON.text(enrolment.info.json)
        let sealed = try shares.map { try seal.seal($0, of: enrolment.id) }
        let attestation = try enrolment.deviceKey.attestation.map { try CanonicalJSON.text($0) }
        try connection.lock("latchkey enrolments of \(enrolment.userID)")
        guard try count(of: enrolment.userID, in: connection) < limit else {
            throw LockerRequestError(
                .enrolmentLimit, "the user has \(limit) enrolments already")
        }
        let (key, created) = (
            enrolment.deviceKey.kid.rawValue, enrolment.createdAt.timeIntervalSince1970
        )
        let inserted = try connection.execute(
            """
            INSERT INTO latchkey_locker_enrolment (
                id, project, user_id, client_id, kid, jwk, device_info, background_share, active_share, created_at,
                last_used_at, attestation
            ) VALUES (
                \(enrolment.id), \(project), \(enrolment.userID), \(enrolment.clientID), \(key), \(jwk), \(info),
                \(sealed?.background), \(sealed?.active), \(created),
                \(enrolment.lastUsedAt?.timeIntervalSince1970), \(attestation)
            ) ON CONFLICT (id) DO NOTHING
            """)
        guard inserted == 1 else {
            throw LockerRequestError(.keyTaken, "the device key is enrolled already")
        }
        for key in enrolment.easyAccessKeys {
            try Self.insert(key, of: enrolment.id, in: connection)
        }
    }

    /// Returns the enrolment with this ID; nil if this project has none.
    package func enrolment(id: String) async throws -> LockerEnrolment? {
        try await database.read { try enrolment(id: id, in: $0) }
    }

    /// Returns a user's enrolments, oldest first.
    public func enrolments(of userID: String) async throws -> [LockerEnrolment] {
        try await database.read {
            try enrolments("user_id = \(userID) ORDER BY created_at, id", in: $0)
        }
    }

    /// Returns the share of the level `background`, which a device may have without its user; nil
    /// if the server stores none.
    ///
    /// - Parameter enrolment: The result of
    ///   ``LockerRequestVerifier/verifyDevice(_:for:audience:enrolmentID:)``.
    /// - Throws: ``LockerRequestError`` with code `enrolmentRevoked` if the enrolment was deleted;
    ///   `KeystoreError` with code `damaged` if the shares were sealed with another key or for
    ///   another enrolment, or were changed.
    public func backgroundShare(of enrolment: LockerEnrolment) async throws -> SecretBytes? {
        try await shares(of: enrolment)?.background
    }

    /// Returns both shares of an enrolment, for a device whose user was authenticated; nil if the
    /// server stores none.
    ///
    /// The signature of a device key does not authenticate the user. So the server must have
    /// verified an easy-access key of the enrolment, or the session of the request must have begun
    /// with the user's authentication on the server's page.
    ///
    /// - Parameters:
    ///   - enrolment: The result of a function of ``LockerRequestVerifier``.
    ///   - userID: The user who was authenticated.
    /// - Throws: ``LockerRequestError`` with code `enrolmentRevoked` if the enrolment was deleted
    ///   or belongs to another user; `KeystoreError` with code `damaged` if the shares were sealed
    ///   with another key or for another enrolment, or were changed.
    public func levelShares(
        of enrolment: LockerEnrolment, afterAuthenticationOf userID: String
    ) async throws -> LevelShares? {
        guard enrolment.userID == userID else { throw Self.revoked }
        return try await shares(of: enrolment)
    }

    private func shares(of enrolment: LockerEnrolment) async throws -> LevelShares? {
        let (id, userID) = (enrolment.id, enrolment.userID)
        let sealed = try await database.read { database -> (background: Data?, active: Data?)? in
            try database.row(
                """
                SELECT background_share, active_share FROM latchkey_locker_enrolment
                WHERE project = \(project) AND id = \(id) AND user_id = \(userID)
                """
            ).map { (try $0.optionalBlob("background_share"), try $0.optionalBlob("active_share")) }
        }
        guard let sealed else { throw Self.revoked }
        guard let background = sealed.background, let active = sealed.active else { return nil }
        return try seal.open(background: background, active: active, of: id)
    }

    /// Adds an easy-access key, in a transaction of the registry's database: the one that confirms
    /// that the session still exists which requests it. Adding the same key again changes nothing.
    /// If it throws, let the transaction fail.
    ///
    /// - Parameters:
    ///   - key: The key of
    ///     ``LockerRequestVerifier/verifyEasyAccessEnabling(_:countersignature:audience:enrolmentID:)``.
    ///   - enrolment: The enrolment of the same result.
    /// - Throws: ``LockerRequestError`` with code `enrolmentRevoked` if there is no such enrolment,
    ///   `easyAccessLimit` if it has ``LockerEnrolment/maximumEasyAccessKeys`` other keys, or
    ///   `keyTaken` if another key of the enrolment has this name, or this key has another name.
    public func addEasyAccessKey(
        _ key: LockerKey, to enrolment: LockerEnrolment, in connection: any SQLConnection
    ) throws {
        let stored = try current(enrolment, in: connection)
        guard
            !stored.easyAccessKeys.contains(where: {
                $0.kid == key.kid && $0.publicKey == key.publicKey
            })
        else { return }
        let others = [stored.deviceKey] + stored.easyAccessKeys
        guard !others.contains(where: { $0.kid == key.kid || $0.publicKey == key.publicKey })
        else {
            throw LockerRequestError(
                .keyTaken,
                "another key of the enrolment has this name, or this key has another name")
        }
        guard stored.easyAccessKeys.count < LockerEnrolment.maximumEasyAccessKeys else {
            throw Self.tooManyKeys
        }
        try Self.insert(key, of: stored.id, in: connection)
    }

    /// Removes the easy-access key of this name. Does nothing if the enrolment has none.
    public func removeEasyAccessKey(named kid: KeyID, of enrolment: LockerEnrolment) async throws {
        try await removeEasyAccessKeys("kid = \(kid.rawValue)", of: enrolment)
    }

    /// Removes all easy-access keys of an enrolment. Does nothing if there is no such enrolment.
    public func removeAllEasyAccessKeys(of enrolment: LockerEnrolment) async throws {
        try await removeEasyAccessKeys("TRUE", of: enrolment)
    }

    private func removeEasyAccessKeys(_ condition: SQLText, of enrolment: LockerEnrolment)
        async throws
    {
        try await database.write {
            try Self.lock(enrolment.id, in: $0)
            try $0.execute(
                """
                DELETE FROM latchkey_locker_easy_access_key WHERE \(condition) AND enrolment_id IN (
                    SELECT id FROM latchkey_locker_enrolment
                    WHERE project = \(project) AND id = \(enrolment.id) AND user_id = \(enrolment.userID))
                """)
        }
    }

    /// Records that the device got tokens or shares. Does nothing if there is no such enrolment.
    public func recordUse(of enrolment: LockerEnrolment, at time: Date) async throws {
        try await database.write {
            try $0.execute(
                """
                UPDATE latchkey_locker_enrolment SET last_used_at = \(time.timeIntervalSince1970)
                WHERE project = \(project) AND id = \(enrolment.id) AND user_id = \(enrolment.userID)
                """)
        }
    }

    /// Deletes an enrolment, its keys and its shares.
    ///
    /// Sessions that began with the user's password do not end. If the user has lost the device,
    /// end them too, or the device is enrolled again with one (<doc:StoringDevices>).
    ///
    /// - Returns: Whether there was such an enrolment.
    @discardableResult
    public func remove(_ enrolment: LockerEnrolment) async throws -> Bool {
        try await database.write { try remove(enrolment, in: $0) }
    }

    /// Deletes an enrolment, its keys and its shares in a transaction of the registry's database:
    /// the one that ends the user's sessions that can be on the device.
    ///
    /// - Returns: Whether there was such an enrolment.
    @discardableResult
    public func remove(_ enrolment: LockerEnrolment, in connection: any SQLConnection) throws
        -> Bool
    {
        try remove(id: enrolment.id, of: enrolment.userID, in: connection) != nil
    }
}
