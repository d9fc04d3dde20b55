internal import FoundationEssentials
public import GRDB
public import Latchkey

/// Devices in SQLite.
public struct DatabaseDeviceRegistry: DeviceRegistry {
    private let database: any DatabaseWriter
    private let project: String

    /// - Parameters:
    ///   - database: One that has gone through ``registerMigrations(_:)``.
    ///   - project: Key names are unique within it.
    public init(_ database: any DatabaseWriter, project: String) {
        self.database = database
        self.project = project
    }

    /// Adds the table to a migrator.
    public static func registerMigrations(_ migrator: inout DatabaseMigrator) {
        migrator.registerMigration("latchkey devices 1") { database in
            try database.execute(
                sql: """
                    CREATE TABLE latchkey_device (
                        project TEXT NOT NULL,
                        kid TEXT NOT NULL,
                        id TEXT NOT NULL UNIQUE,
                        user_id TEXT NOT NULL,
                        jwk TEXT NOT NULL,
                        device_info TEXT NOT NULL,
                        created_at REAL NOT NULL,
                        PRIMARY KEY (project, kid)
                    ) STRICT;
                    CREATE INDEX latchkey_device_user ON latchkey_device (project, user_id, created_at);
                    """)
        }
    }

    public func add(_ device: RegisteredDevice) async throws {
        let jwk = try Self.json(device.key.jwk(kid: device.kid))
        let info = try Self.json(device.info.json)
        do {
            try await database.write { database in
                try database.execute(
                    sql: """
                        INSERT INTO latchkey_device (project, kid, id, user_id, jwk, device_info, created_at)
                        VALUES (?, ?, ?, ?, ?, ?, ?)
                        """,
                    arguments: [
                        project, device.kid.rawValue, device.id, device.userID, jwk, info,
                        device.createdAt.timeIntervalSince1970,
                    ])
            }
        } catch let error as DatabaseError where error.extendedResultCode == .SQLITE_CONSTRAINT_PRIMARYKEY {
            throw BiometricRequestError(.duplicateKeyID, "the key id is registered already")
        }
    }

    public func device(kid: KeyID) async throws -> RegisteredDevice? {
        try await fetch("kid = ?", kid.rawValue).first
    }

    public func devices(of userID: String) async throws -> [RegisteredDevice] {
        try await fetch("user_id = ? ORDER BY created_at, id", userID)
    }

    public func remove(kid: KeyID, of userID: String) async throws -> RegisteredDevice? {
        try await database.write { database in
            try Row.fetchOne(
                database, sql: "DELETE FROM latchkey_device WHERE project = ? AND kid = ? AND user_id = ? RETURNING *",
                arguments: [project, kid.rawValue, userID]
            ).map(Self.device)
        }
    }

    private func fetch(_ condition: String, _ argument: String) async throws -> [RegisteredDevice] {
        try await database.read { database in
            try Row.fetchAll(
                database, sql: "SELECT * FROM latchkey_device WHERE project = ? AND \(condition)",
                arguments: [project, argument]
            ).map(Self.device)
        }
    }

    private static func device(_ row: Row) throws -> RegisteredDevice {
        let jwk = try JSONDecoder().decode(JWK.self, from: Data((row["jwk"] as String).utf8))
        let info = try JSONDecoder().decode(JSONValue.self, from: Data((row["device_info"] as String).utf8))
        guard
            let kid = KeyID(rawValue: row["kid"]), let key = DevicePublicKey(jwk), let info = DeviceInfo(info)
        else {
            throw KeystoreError(
                operation: "read a registered device", code: .damaged, reason: "its row is not what was stored",
                recovery: "Restore the database from a backup, or remove the device and set it up again.")
        }
        return RegisteredDevice(
            id: row["id"], kid: kid, userID: row["user_id"], key: key, info: info,
            createdAt: Date(timeIntervalSince1970: row["created_at"]))
    }

    private static func json(_ value: some Encodable) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(value), as: UTF8.self)
    }
}
