import Foundation
import Latchkey
import LatchkeyPostgreSQL
import LatchkeyRelyingParty

/// Login with a device's key, for a server that has its own users and sessions.
struct DeviceLogin: Sendable {
    private let challenges: DatabaseChallengeStore
    private let devices: DatabaseDeviceRegistry
    private let verifier: BiometricRequestVerifier
    private let audience: BiometricAudience

    /// Uses the server's database, and creates the tables that it does not have.
    init(address: String, issuer: String, clientID: String) async throws {
        let database = try PostgreSQLDatabase(PostgreSQLConfiguration(address: address))
        try await database.migrate(DatabaseChallengeStore.migrations + DatabaseDeviceRegistry.migrations)
        challenges = DatabaseChallengeStore(database)
        devices = DatabaseDeviceRegistry(database, project: "app")
        verifier = BiometricRequestVerifier(challenges: challenges, devices: devices)
        audience = BiometricAudience(issuer: issuer, clientID: clientID)
    }

    /// The challenge endpoint.
    func challenge() async throws -> Challenge { try await challenges.issue(.biometricRequest) }

    /// The token endpoint, with a session: registers the device for the session's user.
    func register(_ jwt: String, for userID: String) async throws {
        let proof = try await verifier.verifySetup(BiometricRequest(jwt), for: audience)
        let device = RegisteredDevice(
            kid: proof.kid, userID: userID, key: proof.key, info: proof.info, createdAt: Date())
        try await devices.add(device)
    }

    /// The token endpoint, without a session: returns the user for whom the server begins a session.
    func logIn(_ jwt: String) async throws -> String {
        try await verifier.verifyAuthentication(BiometricRequest(jwt), for: audience).userID
    }

    /// The removal endpoint, and the page with the user's devices. Also end the sessions of the device.
    func remove(_ kid: KeyID, of userID: String) async throws {
        _ = try await devices.remove(kid: kid, of: userID)
    }
}
