import FoundationEssentials
import LatchkeyRelyingParty

/// The logins on this server's settings pages, by cookie. They replace no login of an app.
struct WebSessionStore: Sendable {
    /// Seconds from the login.
    static let lifetime = 12 * 3_600.0

    let database: any SQLDatabase
    let clock: WallClock

    struct Session: Sendable {
        /// SHA-256 of the cookie's value.
        let digest: Data
        let user: User
        /// The grant of the app that opened the session (``AppSessionEndpoint``). The session ends
        /// with it.
        let grantID: String?

        /// Locks the session (``GrantStore/lock(_:where:in:)``).
        ///
        /// - Returns: False if it has ended.
        func lock(in database: any SQLConnection) throws -> Bool {
            try GrantStore.lock("web_session", where: "digest = \(digest)", in: database)
        }
    }

    /// Starts a session and ends the browser's previous one, so that no cookie value survives a
    /// login (session fixation).
    ///
    /// - Parameter grant: The grant of the app that opens the session; nil if the user has logged
    ///   in now.
    /// - Returns: The new session's cookie value.
    func start(for user: User, replacing old: String?, of grant: LoginGrant? = nil) async throws
        -> String
    {
        let token = OpaqueToken.bytes()
        let clock = clock
        try await database.write { database in
            let now = clock.timestamp(in: database)
            if let old {
                try database.execute(
                    "DELETE FROM web_session WHERE digest = \(OpaqueToken.digest(old))")
            }
            try database.execute(
                """
                INSERT INTO web_session (digest, user_id, grant_id, expires_at)
                VALUES (\(OpaqueToken.digest(token)), \(user.id), \(grant?.id),
                    \(now + Self.lifetime))
                """)
        }
        return token
    }

    func session(_ token: String) async throws -> Session? {
        let clock = clock
        let digest = OpaqueToken.digest(token)
        return try await database.read { database in
            let session = try database.row(
                """
                SELECT user_id, grant_id FROM web_session
                WHERE digest = \(digest) AND expires_at > \(clock.timestamp(in: database))
                """)
            guard let session, let user = try User.user(id: session.text("user_id"), in: database)
            else { return nil }
            return Session(
                digest: digest, user: user, grantID: try session.optionalText("grant_id"))
        }
    }

    func end(_ token: String) async throws {
        _ = try await database.write {
            try $0.execute("DELETE FROM web_session WHERE digest = \(OpaqueToken.digest(token))")
        }
    }
}
