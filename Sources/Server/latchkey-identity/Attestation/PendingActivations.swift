import FoundationEssentials
import Latchkey
import LatchkeyRelyingParty

/// The activations that wait for the client's answer, for all servers on the database.
struct PendingActivations: Sendable {
    /// The maximum number of one user's activations. A new one replaces the oldest.
    static let maximumPerUser = 4

    let database: any SQLDatabase
    let clock: WallClock

    /// Keeps an activation until it expires or is taken.
    ///
    /// - Returns: Its random ID, 43 characters of base64url.
    func add(_ activation: PendingActivation, of userID: String) async throws -> String {
        let id = OpaqueToken.bytes()
        let state = try activation.state
        try await database.write { database in
            try database.lock("activations of \(userID)")
            try database.execute(
                """
                DELETE FROM pending_activation WHERE user_id = \(userID) AND id NOT IN (
                    SELECT id FROM pending_activation WHERE user_id = \(userID)
                    ORDER BY number DESC LIMIT \(Self.maximumPerUser - 1))
                """)
            try database.execute(
                """
                INSERT INTO pending_activation (id, user_id, state, expires_at)
                VALUES (\(id), \(userID), \(state), \(activation.expiresAt.timeIntervalSince1970))
                """)
        }
        return id
    }

    /// Removes and returns an activation of this user.
    func take(_ id: String, of userID: String) async throws -> PendingActivation? {
        let row = try await database.write {
            try $0.row(
                "DELETE FROM pending_activation WHERE id = \(id) AND user_id = \(userID) RETURNING state"
            )
        }
        return try row.map { try PendingActivation(state: try $0.text("state")) }
    }
}
