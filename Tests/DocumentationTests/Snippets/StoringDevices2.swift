import Foundation
import Latchkey
import LatchkeyRelyingParty

/// The enrolments of the locker, for a server that has its own users and sessions.
struct LockerEnrolments: Sendable {
    private let registry: LockerRegistry
    private let verifier: LockerRequestVerifier
    private let issuer: String

    /// Uses a database, and creates the tables that it does not have.
    init(_ database: any SQLDatabase, issuer: String, shareKey: SecretBytes) async throws {
        try await database.migrate(DatabaseChallengeStore.migrations + LockerRegistry.migrations)
        registry = try LockerRegistry(database, project: "app", shareKey: shareKey)
        verifier = LockerRequestVerifier(challenges: DatabaseChallengeStore(database), registry: registry)
        self.issuer = issuer
    }

    /// Enrols a device for the session's user and client. The user must have logged in no more than 300 seconds ago.
    func enrol(_ assertion: String, for userID: String, clientID: String) async throws -> LevelShares {
        let (key, info) = try await verifier.verifyEnrolment(LockerRequest(assertion), audience: issuer)
        let shares = LevelShares()
        try await registry.add(
            LockerEnrolment(userID: userID, clientID: clientID, deviceKey: key, info: info, createdAt: Date()),
            shares: shares, limit: 20)
        return shares
    }

    /// Begins a session with an easy-access key: returns the enrolment with the user and the client of the session.
    func easyAccess(_ assertion: String, clientID: String) async throws -> LockerEnrolment {
        let (enrolment, _) = try await verifier.verifyEasyAccess(LockerRequest(assertion), audience: issuer)
        guard enrolment.clientID == clientID else {
            throw OAuthError("unauthorized_client", "the enrolment belongs to another client")
        }
        try await registry.recordUse(of: enrolment.id, at: Date())
        return enrolment
    }

    /// Deletes an enrolment. Also end its sessions.
    func revoke(_ assertion: String, id: String) async throws {
        let request = try LockerRequest(assertion)
        guard let enrolment = try await verifier.verifyRevocation(request, audience: issuer, enrolmentID: id) else {
            return
        }
        try await registry.remove(id: enrolment.id)
    }
}
