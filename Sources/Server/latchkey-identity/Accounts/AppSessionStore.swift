import FoundationEssentials
import LatchkeyRelyingParty

/// The tokens with which an app opens this server's pages in a browser. Each works once.
struct AppSessionStore: Sendable {
    /// Seconds.
    static let lifetime = 300.0

    let database: any SQLDatabase
    let clock: WallClock

    /// Issues a token for the session of an app.
    func issue(for grant: LoginGrant) async throws -> (token: String, expiresAt: Date) {
        let token = OpaqueToken.bytes()
        let clock = clock
        let expiresAt = try await database.write { database in
            let expiresAt = clock.timestamp(in: database) + Self.lifetime
            try database.execute(
                """
                INSERT INTO app_session_token (digest, grant_id, expires_at)
                VALUES (\(OpaqueToken.digest(token)), \(grant.id), \(expiresAt))
                """)
            return expiresAt
        }
        return (token, Date(timeIntervalSince1970: expiresAt))
    }

    /// Uses a token.
    ///
    /// - Returns: The ID of its grant; nil if the token is used, expired or unknown.
    func redeem(_ token: String) async throws -> String? {
        let clock = clock
        let digest = OpaqueToken.digest(token)
        return try await database.write { database in
            let grantID = try database.row(
                """
                SELECT grant_id FROM app_session_token
                WHERE digest = \(digest) AND expires_at > \(clock.timestamp(in: database))
                """
            )?.text("grant_id")
            let used = try database.execute(
                "DELETE FROM app_session_token WHERE digest = \(digest)")
            return used == 1 ? grantID : nil
        }
    }
}
