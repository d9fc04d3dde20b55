import FoundationEssentials
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty

/// The administrator's view of the database: all users and devices, of all projects.
struct Administration: Sendable {
    let database: any SQLDatabase

    /// A user, as `users list` prints it. Times are in ISO 8601.
    struct UserLine: Encodable, Sendable {
        let id: String
        let username: String
        let anonymous: Bool
        let disabled: Bool
        let createdAt: String
        /// The number of devices with biometric login, and of enrolments with the locker.
        let devices: Int
    }

    /// A device with biometric login or with the locker, as `devices list` prints it.
    struct DeviceLine: Encodable, Sendable {
        enum Kind: String, Encodable, Sendable {
            case biometric, locker
        }

        let id: String
        let kind: Kind
        let username: String
        let userID: String
        let model: String
        let name: String?
        let createdAt: String
        /// The last login that is still valid, or the last use of the locker; nil if there is none.
        let lastUsedAt: String?
        /// The proof of the hardware in words; nil without one.
        let proof: String?
        /// The lowest requirement that the proof met; nil without a proof.
        let level: String?
    }

    /// The numbers of rows, as `check` prints them.
    struct Counts: Encodable, Sendable {
        let dialect: String
        let users: Int
        let devices: Int
        let enrolments: Int
        let grants: Int
    }

    func users() async throws -> [UserLine] {
        try await database.read { database in
            try database.rows(
                """
                SELECT *, (SELECT COUNT(*) FROM latchkey_device WHERE user_id = "user".id)
                    + (SELECT COUNT(*) FROM latchkey_locker_enrolment WHERE user_id = "user".id) AS devices
                FROM "user" ORDER BY username
                """
            ).map { row in
                let user = try User(row)
                return UserLine(
                    id: user.id, username: user.username, anonymous: user.isAnonymous,
                    disabled: user.isDisabled,
                    createdAt: Self.text(user.createdAt), devices: try row.integer("devices"))
            }
        }
    }

    /// Lists the devices of a user, or of all users, oldest first.
    ///
    /// - Throws: ``NotFound`` if there is no such user.
    func devices(of username: String? = nil) async throws -> [DeviceLine] {
        try await database.read { database in
            let user = try Self.condition(username, in: database)
            let biometric = try database.rows(
                """
                SELECT latchkey_device.*, username, (
                    SELECT MAX(auth_time) FROM offline_grant WHERE device_id = latchkey_device.id) AS last_used_at
                FROM latchkey_device JOIN "user" ON "user".id = latchkey_device.user_id \(user)
                ORDER BY latchkey_device.created_at, latchkey_device.id
                """
            ).map { try Self.line($0, .biometric) }
            let locker = try database.rows(
                """
                SELECT latchkey_locker_enrolment.*, username
                FROM latchkey_locker_enrolment JOIN "user" ON "user".id = latchkey_locker_enrolment.user_id \(user)
                ORDER BY latchkey_locker_enrolment.created_at, latchkey_locker_enrolment.id
                """
            ).map { try Self.line($0, .locker) }
            return biometric + locker
        }
    }

    /// Revokes devices: removes their keys and ends their sessions.
    ///
    /// - Returns: The number of devices that existed.
    func revoke(id: String) async throws -> Int {
        try await database.write { database in
            try database.execute("DELETE FROM offline_grant WHERE device_id = \(id)")
            return try database.execute("DELETE FROM latchkey_device WHERE id = \(id)")
                + database.execute("DELETE FROM latchkey_locker_enrolment WHERE id = \(id)")
        }
    }

    /// Revokes all devices of a user.
    ///
    /// - Returns: Their number; nil if there is no such user.
    func revokeAll(of username: String) async throws -> Int? {
        try await database.write { database in
            guard let user = try User.user(named: username, in: database) else { return nil }
            try database.execute(
                "DELETE FROM offline_grant WHERE user_id = \(user.id) AND device_id IS NOT NULL")
            return try database.execute("DELETE FROM latchkey_device WHERE user_id = \(user.id)")
                + database.execute(
                    "DELETE FROM latchkey_locker_enrolment WHERE user_id = \(user.id)")
        }
    }

    /// Reads each table once.
    func counts() async throws -> Counts {
        try await database.read { database in
            func count(_ table: StaticString) throws -> Int {
                let row = try database.row(
                    "SELECT COUNT(*) AS count FROM \(SQLText(constant: table))")
                return try row?.integer("count") ?? 0
            }
            return Counts(
                dialect: database.dialect == .sqlite ? "SQLite" : "PostgreSQL",
                users: try count("\"user\""),
                devices: try count("latchkey_device"),
                enrolments: try count("latchkey_locker_enrolment"),
                grants: try count("offline_grant"))
        }
    }

    private static func condition(_ username: String?, in database: any SQLConnection) throws
        -> SQLText
    {
        guard let username else { return "" }
        guard let id = try User.user(named: username, in: database)?.id else {
            throw NotFound("user", username)
        }
        return "WHERE \"user\".id = \(id)"
    }

    private static func line(_ row: SQLRow, _ kind: DeviceLine.Kind) throws -> DeviceLine {
        let info = DeviceInfo(
            try CanonicalJSON.decode(JSONValue.self, from: row.text("device_info")))
        let proof = try AttestationRecord(row)
        return DeviceLine(
            id: try row.text("id"), kind: kind, username: try row.text("username"),
            userID: try row.text("user_id"),
            model: info?.model ?? "unknown", name: info?.name,
            createdAt: Self.text(try row.real("created_at")),
            lastUsedAt: try row.optionalReal("last_used_at").map(Self.text), proof: proof?.text,
            level: proof?.level)
    }

    static func text(_ time: Double) -> String {
        Date(timeIntervalSince1970: time).formatted(.iso8601)
    }
}

/// An argument names a user, device or key that the database does not contain.
struct NotFound: Error, CustomStringConvertible {
    let description: String

    init(_ kind: String, _ name: String) { description = "There is no \(kind) \(name)." }
}

/// Prints each value as a line of JSON.
func printLines(_ values: [some Encodable]) throws {
    for value in values { print(try CanonicalJSON.text(value)) }
}
