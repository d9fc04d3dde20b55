internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyJOSE

extension LockerRegistry {
    /// Deletes the enrolment with this ID, in a transaction of the registry's database.
    ///
    /// - Parameter userID: The user who must own it; nil for any.
    /// - Returns: The user's ID; nil if there was none.
    package func remove(id: String, of userID: String? = nil, in connection: any SQLConnection)
        throws -> String?
    {
        try Self.lock(id, in: connection)
        let owned: SQLText = userID.map { "user_id = \($0)" } ?? "TRUE"
        return try connection.row(
            """
            DELETE FROM latchkey_locker_enrolment
            WHERE project = \(project) AND id = \(id) AND \(owned) RETURNING user_id
            """
        )?.text("user_id")
    }

    /// Deletes the enrolments of a user, in a transaction of the registry's database.
    ///
    /// - Returns: Their number.
    package func removeAll(of userID: String, in connection: any SQLConnection) throws -> Int {
        try connection.rows(
            """
            SELECT id FROM latchkey_locker_enrolment
            WHERE project = \(project) AND user_id = \(userID) ORDER BY id
            """
        ).count { try remove(id: $0.text("id"), of: userID, in: connection) != nil }
    }

    static let revoked = LockerRequestError(.enrolmentRevoked, "there is no such enrolment")
    static let tooManyKeys = LockerRequestError(
        .easyAccessLimit, "the enrolment has the maximum number of easy-access keys")

    /// Locks an enrolment, and returns it with its current keys.
    ///
    /// - Throws: ``LockerRequestError`` with code `enrolmentRevoked` if it was deleted, also if the
    ///   device was enrolled again for another user or client.
    func current(_ enrolment: LockerEnrolment, in database: any SQLConnection) throws
        -> LockerEnrolment
    {
        try Self.lock(enrolment.id, in: database)
        guard let current = try self.enrolment(id: enrolment.id, in: database),
            current.userID == enrolment.userID,
            current.clientID == enrolment.clientID,
            current.deviceKey.publicKey == enrolment.deviceKey.publicKey
        else { throw Self.revoked }
        return current
    }

    /// Refuses easy-access keys that ``addEasyAccessKey(_:to:in:)`` would refuse.
    static func requireDistinctKeys(_ enrolment: LockerEnrolment) throws(LockerRequestError) {
        guard enrolment.easyAccessKeys.count <= LockerEnrolment.maximumEasyAccessKeys else {
            throw tooManyKeys
        }
        let keys = [enrolment.deviceKey] + enrolment.easyAccessKeys
        guard Set(keys.map(\.kid)).count == keys.count,
            Set(keys.map(\.publicKey)).count == keys.count
        else {
            throw LockerRequestError(
                .keyTaken, "two keys of the enrolment are the same, or have the same name")
        }
    }

    /// The enrolment with this ID, of any user, in a transaction of the registry's database.
    package func enrolment(id: String, in database: any SQLConnection) throws -> LockerEnrolment? {
        try enrolments("id = \(id)", in: database).first
    }

    func enrolments(_ condition: SQLText, in database: any SQLConnection) throws
        -> [LockerEnrolment]
    {
        try database.rows(
            "SELECT * FROM latchkey_locker_enrolment WHERE project = \(project) AND \(condition)"
        ).map { try Self.enrolment($0, in: database) }
    }

    func count(of userID: String, in database: any SQLConnection) throws -> Int {
        try database.row(
            """
            SELECT count(*) AS count FROM latchkey_locker_enrolment
            WHERE project = \(project) AND user_id = \(userID)
            """
        )?.integer("count") ?? 0
    }

    static func enrolment(_ row: SQLRow, in database: any SQLConnection) throws
        -> LockerEnrolment
    {
        let id = try row.text("id")
        let keys = try database.rows(
            """
            SELECT kid, jwk, attestation FROM latchkey_locker_easy_access_key WHERE enrolment_id = \(id) ORDER BY kid
            """)
        guard
            let info = DeviceInfo(
                try CanonicalJSON.decode(JSONValue.self, from: row.text("device_info")))
        else {
            throw damaged
        }
        return LockerEnrolment(
            id: id, userID: try row.text("user_id"), clientID: try row.text("client_id"),
            deviceKey: try key(row),
            easyAccessKeys: try keys.map(key), info: info,
            createdAt: Date(timeIntervalSince1970: try row.real("created_at")),
            lastUsedAt: try row.optionalReal("last_used_at").map { Date(timeIntervalSince1970: $0) }
        )
    }

    static func key(_ row: SQLRow) throws -> LockerKey {
        let jwk = try CanonicalJSON.decode(JWK.self, from: row.text("jwk"))
        guard let kid = KeyID(rawValue: try row.text("kid")) else { throw damaged }
        return LockerKey(
            kid: kid, publicKey: try jwk.publicKey(), attestation: try AttestationRecord(row))
    }

    static func insert(_ key: LockerKey, of id: String, in database: any SQLConnection)
        throws
    {
        let jwk = try CanonicalJSON.text(JWK(key.publicKey, kid: key.kid))
        let attestation = try key.attestation.map { try CanonicalJSON.text($0) }
        try database.execute(
            """
            INSERT INTO latchkey_locker_easy_access_key (enrolment_id, kid, jwk, attestation)
            VALUES (\(id), \(key.kid.rawValue), \(jwk), \(attestation))
            """)
    }

    static var damaged: KeystoreError {
        KeystoreError(
            operation: "read an enrolment", code: .damaged, reason: "its database row is damaged",
            recovery:
                "Restore the database from a backup, or revoke the enrolment and enrol the device again."
        )
    }
}
