import FoundationEssentials
import Latchkey
import LatchkeyRelyingParty
import Synchronization

/// The activations that wait for the client's answer: in memory for a server with SQLite, in the
/// database for servers that share a PostgreSQL database. In memory they are lost when the server
/// stops; the client then begins again.
final class PendingActivations: Sendable {
    /// The maximum number of one user's activations. A new one replaces the oldest.
    static let maximumPerUser = 4
    /// The maximum number of all activations.
    static let maximum = 1_000

    private struct Entry {
        let id: String
        let userID: String
        let activation: PendingActivation
    }

    /// In the order of expiry: all have the same lifetime.
    private let entries = Mutex<[Entry]>([])
    /// nil for memory.
    private let database: (any SQLDatabase)?
    private let clock: WallClock

    init(database: any SQLDatabase, clock: WallClock) {
        self.database = database.dialect == .postgreSQL ? database : nil
        self.clock = clock
    }

    /// Keeps an activation until it expires or is taken.
    ///
    /// - Returns: Its random ID, 43 characters of base64url.
    func add(_ activation: PendingActivation, of userID: String) async throws -> String {
        let id = OpaqueToken.bytes()
        if let database {
            try await store(activation, id, of: userID, in: database)
            return id
        }
        let now = clock.now
        entries.withLock { entries in
            entries.removeAll { $0.activation.expiresAt <= now }
            let own = entries.filter { $0.userID == userID }
            if own.count >= Self.maximumPerUser, let oldest = own.first {
                entries.removeAll { $0.id == oldest.id }
            }
            entries.removeFirst(max(0, entries.count - Self.maximum + 1))
            entries.append(Entry(id: id, userID: userID, activation: activation))
        }
        return id
    }

    /// Removes and returns an activation of this user.
    func take(_ id: String, of userID: String) async throws -> PendingActivation? {
        if let database {
            let row = try await database.write {
                try $0.row(
                    "DELETE FROM pending_activation WHERE id = \(id) AND user_id = \(userID) RETURNING state"
                )
            }
            return try row.map { try PendingActivation(state: try $0.text("state")) }
        }
        return entries.withLock { entries in
            entries.firstIndex { $0.id == id && $0.userID == userID }.map {
                entries.remove(at: $0).activation
            }
        }
    }

    private func store(
        _ activation: PendingActivation, _ id: String, of userID: String,
        in database: any SQLDatabase
    ) async throws {
        let state = try activation.state
        let clock = clock
        _ = try await database.write { database in
            try database.lock("activations of \(userID)")
            try database.deleteExpired(
                from: "pending_activation", at: clock.timestamp(in: database))
            try database.execute(
                """
                DELETE FROM pending_activation WHERE user_id = \(userID) AND id NOT IN (
                    SELECT id FROM pending_activation WHERE user_id = \(userID)
                    ORDER BY number DESC LIMIT \(Self.maximumPerUser - 1))
                """)
            return try database.execute(
                """
                INSERT INTO pending_activation (id, user_id, state, expires_at)
                VALUES (\(id), \(userID), \(state), \(activation.expiresAt.timeIntervalSince1970))
                """)
        }
    }
}
