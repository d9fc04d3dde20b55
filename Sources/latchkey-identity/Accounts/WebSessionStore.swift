import FoundationEssentials
import GRDB
import LatchkeyRelyingParty

/// The logins on this server's own pages, by cookie.
struct WebSessionStore: Sendable {
    /// Seconds from the login.
    static let lifetime = 12 * 3_600.0

    let database: any DatabaseWriter
    let clock: WallClock

    struct Session: Sendable {
        let user: User
        /// Seconds since 1970.
        let authTime: Double
    }

    /// Starts a session and ends the browser's previous one, so that no cookie value survives a login (session
    /// fixation).
    ///
    /// - Returns: The new session's cookie value.
    func start(for user: User, replacing old: String?) async throws -> String {
        let token = OpaqueToken.bytes()
        let now = clock.timestamp
        try await database.write { database in
            try database.execute(
                literal: """
                    DELETE FROM web_session WHERE digest = \(old.map(OpaqueToken.digest)) OR expires_at <= \(now);
                    INSERT INTO web_session (digest, user_id, auth_time, expires_at)
                        VALUES (\(OpaqueToken.digest(token)), \(user.id), \(now), \(now + Self.lifetime))
                    """)
        }
        return token
    }

    func session(_ token: String) async throws -> Session? {
        let now = clock.timestamp
        return try await database.read { database in
            let session: SQLRequest<Row> = """
                SELECT user_id, auth_time FROM web_session
                WHERE digest = \(OpaqueToken.digest(token)) AND expires_at > \(now)
                """
            guard
                let row = try session.fetchOne(database),
                let user = try User.fetchOne(database, key: row["user_id"] as String), !user.isDisabled
            else { return nil }
            return Session(user: user, authTime: row["auth_time"])
        }
    }

    func end(_ token: String) async throws {
        try await database.write {
            try $0.execute(literal: "DELETE FROM web_session WHERE digest = \(OpaqueToken.digest(token))")
        }
    }
}
