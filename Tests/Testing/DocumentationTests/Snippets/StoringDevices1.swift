import Foundation
import Latchkey
import LatchkeyPostgreSQL
import LatchkeyRelyingParty

/// Login with a device's key, for a server that has its own users and sessions.
struct DeviceLogin: Sendable {
    /// The server's sessions. Those that begin on its login page have no device.
    private static let sessions = SQLMigration(
        "device sessions 1",
        sqlite: """
            CREATE TABLE session (
                id TEXT PRIMARY KEY NOT NULL,
                user_id TEXT NOT NULL,
                device_id TEXT REFERENCES latchkey_device (id) ON DELETE CASCADE
            ) STRICT;
            """,
        postgreSQL: """
            CREATE TABLE session (
                id TEXT PRIMARY KEY NOT NULL,
                user_id TEXT NOT NULL,
                device_id TEXT REFERENCES latchkey_device (id) ON DELETE CASCADE
            );
            """)

    private let database: any SQLDatabase
    private let challenges: DatabaseChallengeStore
    private let devices: DatabaseDeviceRegistry
    private let verifier: BiometricRequestVerifier
    private let audience: BiometricAudience

    /// Uses the server's database, and creates the tables that it does not have.
    init(address: String, issuer: String, clientID: String) async throws {
        let database = try PostgreSQLDatabase(PostgreSQLConfiguration(address: address))
        try await database.migrate(
            DatabaseChallengeStore.migrations + DatabaseDeviceRegistry.migrations + [Self.sessions])
        self.database = database
        challenges = DatabaseChallengeStore(database)
        devices = DatabaseDeviceRegistry(database, project: "app")
        verifier = BiometricRequestVerifier(challenges: challenges, devices: devices)
        audience = BiometricAudience(issuer: issuer, clientID: clientID)
    }

    /// The challenge endpoint.
    func challenge() async throws -> Challenge { try await challenges.issue(.biometricRequest) }

    /// The token endpoint, with a session: registers the device for the session's user. It fails if
    /// the session has ended since: a revocation waits for this transaction.
    func register(_ jwt: String, for userID: String, in sessionID: String) async throws {
        let proof = try await verifier.verifySetup(BiometricRequest(jwt), for: audience)
        let device = RegisteredDevice(
            kid: proof.kid, userID: userID, key: proof.key, info: proof.info, createdAt: Date())
        try await database.write { connection in
            let locked = try connection.execute(
                "UPDATE session SET user_id = user_id WHERE id = \(sessionID)")
            guard locked == 1 else {
                throw OAuthError(status: 401, "invalid_grant", "the session has ended")
            }
            try devices.add(device, in: connection)
        }
    }

    /// The token endpoint, without a session: begins a session of the device's user. It fails if
    /// the device was removed after the verification.
    func logIn(_ jwt: String, sessionID: String) async throws -> RegisteredDevice {
        let device = try await verifier.verifyAuthentication(BiometricRequest(jwt), for: audience)
        try await database.write { connection in
            try connection.execute(
                """
                INSERT INTO session (id, user_id, device_id)
                VALUES (\(sessionID), \(device.userID), \(device.id))
                """)
        }
        return device
    }

    /// The removal endpoint: an app gives up its own key. The foreign key ends the sessions of the
    /// device.
    ///
    /// - Returns: Whether the user had the device. The removal endpoint answers 404 if not.
    func remove(_ kid: KeyID, of userID: String) async throws -> Bool {
        try await devices.remove(kid: kid, of: userID) != nil
    }

    /// The page with the user's devices: the user may have lost the device. Any session that began
    /// on the login page can be on it, and could register another key.
    ///
    /// - Parameter sessionID: The session of the page, which stays.
    func revoke(_ kid: KeyID, of userID: String, from sessionID: String) async throws -> Bool {
        try await database.write { connection in
            guard try devices.remove(kid: kid, of: userID, in: connection) != nil else {
                return false
            }
            try connection.execute(
                """
                DELETE FROM session
                WHERE user_id = \(userID) AND device_id IS NULL AND id <> \(sessionID)
                """)
            return true
        }
    }
}
