public import FoundationEssentials
public import Latchkey
public import LatchkeyJOSE

/// The registered devices of one project, with their keys and users.
///
/// The registry has no sessions. A device that its user has lost also holds the user's login: end
/// those of its sessions that began with a password, too, or it registers another key with them
/// (<doc:StoringDevices>).
public protocol DeviceRegistry: Sendable {
    /// Registers a device.
    ///
    /// - Throws: ``BiometricRequestError`` with code `duplicateKeyID` if any user has a key of this
    ///   name.
    func add(_ device: RegisteredDevice) async throws

    /// Returns the device whose key has this name.
    func device(kid: KeyID) async throws -> RegisteredDevice?

    /// Returns a user's devices, oldest first.
    func devices(of userID: String) async throws -> [RegisteredDevice]

    /// Removes a device of a user. Ends no session; see ``DeviceRegistry``.
    ///
    /// - Returns: The removed device; nil if the user has no device of this name.
    func remove(kid: KeyID, of userID: String) async throws -> RegisteredDevice?
}

/// A device's key, registered for a user: a biometric identity.
public struct RegisteredDevice: Hashable, Sendable, Identifiable {
    /// A random UUID in lower case. The server chooses it; the device chooses ``kid``.
    public let id: String
    /// The name of the key, unique in a project.
    public let kid: KeyID
    /// The user who owns the device.
    public let userID: String
    /// The key that verifies the device's signatures.
    public let key: DevicePublicKey
    /// The device's description of itself.
    public let info: DeviceInfo
    /// The time of the registration.
    public let createdAt: Date
    /// The proof that the key is in hardware, if the server verified one.
    package var attestation: AttestationRecord?

    /// Creates a device.
    public init(
        id: String = UUID().uuidString.lowercased(), kid: KeyID, userID: String,
        key: DevicePublicKey, info: DeviceInfo,
        createdAt: Date
    ) {
        self.id = id
        self.kid = kid
        self.userID = userID
        self.key = key
        self.info = info
        self.createdAt = createdAt
    }
}

/// A device's unverified description of itself, for display only.
///
/// The formats are those of Authgear: an object `android` or else an object `ios`. There is no
/// format for Linux; a Linux client uses one of these.
public struct DeviceInfo: Hashable, Sendable {
    /// The description as the device sent it.
    public let json: JSONValue
    /// The maximum number of Unicode scalars in ``model`` and ``name``.
    private static let maximumTextLength = 100

    /// The kind of machine. Never empty, and safe to display in a line of text: characters that are
    /// invisible or change the text direction are replaced by U+FFFD.
    public let model: String
    /// The name that the owner gave to the device, if any; safe to display like ``model``.
    public let name: String?

    /// Reads a description.
    ///
    /// - Returns: nil if the JSON does not name a model.
    public init?(_ json: JSONValue) {
        let texts: (model: String?, name: String?)
        if let android = json["android"], android.object != nil {
            let (build, settings) = (android["Build"], android["Settings"])
            guard let maker = build?["MANUFACTURER"]?.string, let model = build?["MODEL"]?.string
            else { return nil }
            texts = (
                "\(maker) \(model)",
                settings?["Global"]?["DEVICE_NAME"]?.string
                    ?? settings?["Secure"]?["bluetooth_name"]?.string
            )
        } else {
            let uname = json["ios"]?["uname"]
            let machine = uname?["machine"]?.string
            texts = (
                machine == "x86_64" || machine == "arm64" ? "iOS Simulator" : machine,
                uname?["nodename"]?.string
            )
        }
        guard let model = texts.model, !model.isEmpty else { return nil }
        self.json = json
        self.model = String(oneLine: model, limit: Self.maximumTextLength)
        name = texts.name.flatMap {
            $0.isEmpty ? nil : String(oneLine: $0, limit: Self.maximumTextLength)
        }
    }

    /// The model and the name: `Linux ThinkPad X1 (workbench)`.
    package var label: String {
        name.map { "\(model) (\($0))" } ?? model
    }
}

/// Devices in a database.
public struct DatabaseDeviceRegistry: DeviceRegistry {
    private let database: any SQLDatabase
    private let project: String

    /// Creates a registry.
    ///
    /// - Parameters:
    ///   - database: A database with the tables of ``migrations``.
    ///   - project: Key names are unique within a project.
    public init(_ database: any SQLDatabase, project: String) {
        self.database = database
        self.project = project
    }

    /// The migration that creates the table.
    public static let migrations = [
        SQLMigration(
            "latchkey devices 1",
            sqlite: """
                CREATE TABLE latchkey_device (
                    project TEXT NOT NULL,
                    kid TEXT NOT NULL,
                    id TEXT NOT NULL UNIQUE,
                    user_id TEXT NOT NULL,
                    jwk TEXT NOT NULL,
                    device_info TEXT NOT NULL,
                    created_at REAL NOT NULL,
                    attestation TEXT,
                    PRIMARY KEY (project, kid)
                ) STRICT;
                CREATE INDEX latchkey_device_user ON latchkey_device (project, user_id, created_at);
                """,
            postgreSQL: """
                CREATE TABLE latchkey_device (
                    project TEXT NOT NULL,
                    kid TEXT NOT NULL,
                    id TEXT NOT NULL UNIQUE,
                    user_id TEXT NOT NULL,
                    jwk TEXT NOT NULL,
                    device_info TEXT NOT NULL,
                    created_at DOUBLE PRECISION NOT NULL,
                    attestation TEXT,
                    PRIMARY KEY (project, kid)
                );
                CREATE INDEX latchkey_device_user ON latchkey_device (project, user_id, created_at);
                """)
    ]

    public func add(_ device: RegisteredDevice) async throws {
        try await database.write { try add(device, in: $0) }
    }

    /// Registers a device in a transaction of the registry's database: the one that confirms that
    /// the session still exists which requests it.
    ///
    /// - Throws: ``BiometricRequestError`` with code `duplicateKeyID`. Let the transaction fail.
    public func add(_ device: RegisteredDevice, in connection: any SQLConnection) throws {
        let jwk = try CanonicalJSON.text(device.key.jwk(kid: device.kid))
        let info = try CanonicalJSON.text(device.info.json)
        let attestation = try device.attestation.map { try CanonicalJSON.text($0) }
        let inserted = try connection.execute(
            """
            INSERT INTO latchkey_device (
                project, kid, id, user_id, jwk, device_info, created_at, attestation
            ) VALUES (\(project), \(device.kid.rawValue), \(device.id), \(device.userID), \(jwk), \(info),
                \(device.createdAt.timeIntervalSince1970), \(attestation))
            ON CONFLICT (project, kid) DO NOTHING
            """)
        guard inserted == 1 else {
            throw BiometricRequestError(.duplicateKeyID, "the key ID is registered already")
        }
    }

    public func device(kid: KeyID) async throws -> RegisteredDevice? {
        try await fetch("kid = \(kid.rawValue)").first
    }

    public func devices(of userID: String) async throws -> [RegisteredDevice] {
        try await fetch("user_id = \(userID) ORDER BY created_at, id")
    }

    public func remove(kid: KeyID, of userID: String) async throws -> RegisteredDevice? {
        try await database.write { try remove(kid: kid, of: userID, in: $0) }
    }

    /// Removes a device of a user in a transaction of the registry's database: the one that ends
    /// the user's sessions that can be on the device.
    ///
    /// - Returns: The removed device; nil if the user has no device of this name.
    public func remove(kid: KeyID, of userID: String, in connection: any SQLConnection) throws
        -> RegisteredDevice?
    {
        try connection.row(
            """
            DELETE FROM latchkey_device
            WHERE project = \(project) AND kid = \(kid.rawValue) AND user_id = \(userID) RETURNING *
            """
        ).map(Self.device)
    }

    /// Removes the device with this ID, in a transaction of the registry's database.
    ///
    /// - Parameter userID: The user who must own it; nil for any.
    /// - Returns: The user's ID; nil if there was none.
    package func remove(id: String, of userID: String? = nil, in connection: any SQLConnection)
        throws -> String?
    {
        let owned: SQLText = userID.map { "user_id = \($0)" } ?? "TRUE"
        return try connection.row(
            """
            DELETE FROM latchkey_device WHERE project = \(project) AND id = \(id) AND \(owned)
            RETURNING user_id
            """
        )?.text("user_id")
    }

    /// Removes the devices of a user, in a transaction of the registry's database.
    ///
    /// - Returns: Their number.
    package func removeAll(of userID: String, in connection: any SQLConnection) throws -> Int {
        try connection.execute(
            "DELETE FROM latchkey_device WHERE project = \(project) AND user_id = \(userID)")
    }

    /// Returns the device with this ID, of any user, in a transaction of the registry's database.
    package func device(id: String, in connection: any SQLConnection) throws -> RegisteredDevice? {
        try fetch("id = \(id)", in: connection).first
    }

    /// Confirms that a device still exists with its key, in the transaction that stores its session.
    /// It cannot be removed until the transaction ends.
    ///
    /// - Returns: Whether it exists.
    package func lock(_ device: RegisteredDevice, in connection: any SQLConnection) throws -> Bool {
        let locked: SQLText =
            switch connection.dialect {
            case .sqlite: "id = \(device.id)"
            case .postgreSQL: "id = \(device.id) FOR KEY SHARE"
            }
        return try fetch(locked, in: connection).contains {
            $0.key == device.key && $0.userID == device.userID
        }
    }

    private func fetch(_ condition: SQLText) async throws -> [RegisteredDevice] {
        try await database.read { try fetch(condition, in: $0) }
    }

    private func fetch(_ condition: SQLText, in connection: any SQLConnection) throws
        -> [RegisteredDevice]
    {
        try connection.rows(
            "SELECT * FROM latchkey_device WHERE project = \(project) AND \(condition)"
        ).map(Self.device)
    }

    private static func device(_ row: SQLRow) throws -> RegisteredDevice {
        let jwk = try CanonicalJSON.decode(JWK.self, from: row.text("jwk"))
        let info = try CanonicalJSON.decode(JSONValue.self, from: row.text("device_info"))
        guard
            let kid = KeyID(rawValue: try row.text("kid")), let key = DevicePublicKey(jwk),
            let info = DeviceInfo(info)
        else {
            throw KeystoreError(
                operation: "read a registered device", code: .damaged,
                reason: "its database row is damaged",
                recovery:
                    "Restore the database from a backup, or remove the device and set it up again.")
        }
        var device = RegisteredDevice(
            id: try row.text("id"), kid: kid, userID: try row.text("user_id"), key: key, info: info,
            createdAt: Date(timeIntervalSince1970: try row.real("created_at")))
        device.attestation = try AttestationRecord(row)
        return device
    }
}
