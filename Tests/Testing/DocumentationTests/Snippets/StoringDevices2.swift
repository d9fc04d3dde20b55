import Foundation
import Latchkey
import LatchkeyRelyingParty

/// The enrolments of the locker, for a server that has its own users and sessions.
struct LockerEnrolments: Sendable {
    /// The server's sessions. Those that begin on its login page have no enrolment and no key.
    private static let sessions = SQLMigration(
        "sessions 1",
        sqlite: """
            CREATE TABLE session (
                id TEXT PRIMARY KEY NOT NULL,
                user_id TEXT NOT NULL,
                enrolment_id TEXT REFERENCES latchkey_locker_enrolment (id) ON DELETE CASCADE,
                easy_access_kid TEXT,
                FOREIGN KEY (enrolment_id, easy_access_kid)
                    REFERENCES latchkey_locker_easy_access_key (enrolment_id, kid) ON DELETE CASCADE
            ) STRICT;
            """,
        postgreSQL: """
            CREATE TABLE session (
                id TEXT PRIMARY KEY NOT NULL,
                user_id TEXT NOT NULL,
                enrolment_id TEXT REFERENCES latchkey_locker_enrolment (id) ON DELETE CASCADE,
                easy_access_kid TEXT,
                FOREIGN KEY (enrolment_id, easy_access_kid)
                    REFERENCES latchkey_locker_easy_access_key (enrolment_id, kid) ON DELETE CASCADE
            );
            """)

    private let database: any SQLDatabase
    private let registry: LockerRegistry
    private let verifier: LockerRequestVerifier
    private let issuer: String

    /// Uses a database, and creates the tables that it does not have.
    init(_ database: any SQLDatabase, issuer: String, shareKey: SecretBytes) async throws {
        try await database.migrate(
            DatabaseChallengeStore.migrations + LockerRegistry.migrations + [Self.sessions])
        self.database = database
        registry = try LockerRegistry(database, project: "app", shareKey: shareKey)
        verifier = LockerRequestVerifier(
            challenges: DatabaseChallengeStore(database), registry: registry)
        self.issuer = issuer
    }

    /// Enrols a device for the session's user and client. The user must have logged in no more than
    /// 300 seconds ago. It fails if the session has ended since: the update locks its row.
    func enrol(_ assertion: String, for userID: String, clientID: String, in sessionID: String)
        async throws -> LevelShares
    {
        let (key, info) = try await verifier.verifyEnrolment(
            LockerRequest(assertion), audience: issuer)
        let shares = LevelShares()
        let enrolment = LockerEnrolment(
            userID: userID, clientID: clientID, deviceKey: key, info: info, createdAt: Date())
        try await database.write { connection in
            let locked = try connection.execute(
                "UPDATE session SET user_id = user_id WHERE id = \(sessionID)")
            guard locked == 1 else {
                throw OAuthError(status: 401, "invalid_token", "the session has ended")
            }
            try registry.add(enrolment, shares: shares, limit: 20, in: connection)
        }
        return shares
    }

    /// Begins a session of the enrolment's user with an easy-access key. The removal of the key or
    /// of the enrolment ends it.
    func easyAccess(_ assertion: String, clientID: String, sessionID: String) async throws
        -> LockerEnrolment
    {
        let (enrolment, key) = try await verifier.verifyEasyAccess(
            LockerRequest(assertion), audience: issuer)
        guard enrolment.clientID == clientID else {
            throw OAuthError("unauthorized_client", "the enrolment belongs to another client")
        }
        try await database.write { connection in
            try registry.lock(key, of: enrolment, in: connection)
            try connection.execute(
                """
                INSERT INTO session (id, user_id, enrolment_id, easy_access_kid)
                VALUES (\(sessionID), \(enrolment.userID), \(enrolment.id), \(key.kid.rawValue))
                """)
        }
        try await registry.recordUse(of: enrolment, at: Date())
        return enrolment
    }

    /// The page with the user's devices: deletes an enrolment of the user, who may have lost the
    /// device. Any other session that began on the login page can be on it, and could enrol it.
    func remove(_ id: String, of userID: String, from sessionID: String) async throws {
        guard
            let enrolment = try await registry.enrolments(of: userID).first(where: { $0.id == id })
        else { return }
        try await database.write { connection in
            try registry.remove(enrolment, in: connection)
            try connection.execute(
                """
                DELETE FROM session
                WHERE user_id = \(userID) AND enrolment_id IS NULL AND id <> \(sessionID)
                """)
        }
    }

    /// Deletes an enrolment when its device requests it.
    func revoke(_ assertion: String, id: String) async throws {
        let request = try LockerRequest(assertion)
        guard
            let enrolment = try await verifier.verifyRevocation(
                request, audience: issuer, enrolmentID: id)
        else {
            return
        }
        try await registry.remove(enrolment)
    }
}
