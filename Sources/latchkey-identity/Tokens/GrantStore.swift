import FoundationEssentials
import GRDB
import LatchkeyRelyingParty

/// The stored grants, tokens and authorization codes.
struct GrantStore: Sendable {
    let database: any DatabaseWriter
    let clock: WallClock

    /// The user and grant of a valid token.
    struct Session: Sendable {
        let user: User
        let grant: LoginGrant
    }

    /// The session of an access token; nil if it is expired, revoked or unknown, or the user is disabled.
    func session(accessToken: String) async throws -> Session? {
        let now = clock.timestamp
        return try await database.read { database in
            let grant: SQLRequest<LoginGrant> = """
                SELECT offline_grant.* FROM offline_grant JOIN access_token ON grant_id = id
                WHERE digest = \(OpaqueToken.digest(accessToken)) AND access_token.expires_at > \(now)
                    AND offline_grant.expires_at > \(now)
                """
            return try Self.session(grant.fetchOne(database), in: database)
        }
    }

    /// The session of a refresh token; nil if it is expired, revoked or unknown, or the user is disabled.
    ///
    /// If the token was replaced before, either this use or the use of its successor is by an attacker: the grant is
    /// revoked (RFC 9700 section 4.14.2).
    func session(refreshToken: String) async throws -> Session? {
        let now = clock.timestamp
        return try await database.write { database in
            let token: SQLRequest<Row> = """
                SELECT grant_id, is_used FROM refresh_token WHERE digest = \(OpaqueToken.digest(refreshToken))
                """
            guard let row = try token.fetchOne(database) else { return nil }
            if row["is_used"] as Bool {
                try LoginGrant.deleteOne(database, key: row["grant_id"] as String)
                return nil
            }
            let grant = try LoginGrant.fetchOne(database, key: row["grant_id"] as String)
            guard let grant, grant.expiresAt > now, grant.idleExpiresAt > now else { return nil }
            return try Self.session(grant, in: database)
        }
    }

    private static func session(_ grant: LoginGrant?, in database: Database) throws -> Session? {
        guard let grant, let user = try User.fetchOne(database, key: grant.userID), !user.isDisabled else { return nil }
        return Session(user: user, grant: grant)
    }

    /// Stores a new grant and its first tokens, and revokes the grants of the same device.
    ///
    /// - Returns: False if its code was used already, or its enrolment or easy-access key was deleted.
    func insert(_ grant: LoginGrant, tokens: TokenResponse, from code: AuthorizationCode? = nil) async throws -> Bool {
        let now = clock.timestamp
        return try await database.write { database in
            if let code {
                try database.execute(
                    literal: "UPDATE authorization_code SET is_used = 1 WHERE digest = \(code.digest) AND is_used = 0")
                guard database.changesCount == 1 else {
                    try LoginGrant.deleteOne(database, key: code.grantID)
                    return false
                }
            }
            let isProven: SQLRequest<Bool> = """
                SELECT (\(grant.enrolmentID) IS NULL OR EXISTS (
                        SELECT 1 FROM latchkey_locker_enrolment WHERE id = \(grant.enrolmentID)))
                    AND (\(grant.easyAccessKeyID) IS NULL OR EXISTS (
                        SELECT 1 FROM latchkey_locker_easy_access_key
                        WHERE enrolment_id = \(grant.enrolmentID) AND kid = \(grant.easyAccessKeyID)))
                """
            guard try isProven.fetchOne(database) == true else { return false }
            try database.execute(literal: "DELETE FROM offline_grant WHERE device_id = \(grant.deviceID)")
            try grant.insert(database)
            try Self.insert(tokens, of: grant.id, now: now, in: database)
            return true
        }
    }

    /// Stores the tokens of a refresh. A new refresh token replaces `refreshToken`.
    ///
    /// - Returns: False if another request used the same refresh token first. The grant is then revoked.
    func refresh(
        _ grant: LoginGrant, replacing refreshToken: String, with tokens: TokenResponse, deviceInfo: String?,
        idleTimeout: Int
    ) async throws -> Bool {
        let now = clock.timestamp
        return try await database.write { database in
            try database.execute(
                literal: """
                    UPDATE refresh_token SET is_used = \(tokens.refreshToken != nil)
                    WHERE digest = \(OpaqueToken.digest(refreshToken)) AND is_used = 0
                    """)
            guard database.changesCount == 1 else {
                try LoginGrant.deleteOne(database, key: grant.id)
                return false
            }
            try database.execute(
                literal: """
                    UPDATE offline_grant SET device_info = \(deviceInfo), idle_expires_at = \(now + Double(idleTimeout))
                    WHERE id = \(grant.id)
                    """)
            try Self.insert(tokens, of: grant.id, now: now, in: database)
            return true
        }
    }

    /// Ends a grant and all its tokens.
    func revoke(grantID: String) async throws {
        _ = try await database.write { try LoginGrant.deleteOne($0, key: grantID) }
    }

    /// Revokes the grant of a refresh token, or an access token alone. Ignores an unknown token.
    func revoke(token: String) async throws {
        let digest = OpaqueToken.digest(token)
        try await database.write {
            try $0.execute(
                literal: """
                    DELETE FROM offline_grant WHERE id IN (SELECT grant_id FROM refresh_token WHERE digest = \(digest));
                    DELETE FROM access_token WHERE digest = \(digest)
                    """)
        }
    }

    func insert(_ code: AuthorizationCode) async throws {
        try await database.write { try code.insert($0) }
    }

    /// The code, also if it was used; nil if it is expired or unknown.
    func code(_ text: String) async throws -> AuthorizationCode? {
        let code = try await database.read { try AuthorizationCode.fetchOne($0, key: OpaqueToken.digest(text)) }
        return code.flatMap { $0.expiresAt > clock.timestamp ? $0 : nil }
    }

    /// Stores tokens and deletes expired rows.
    private static func insert(_ tokens: TokenResponse, of grantID: String, now: Double, in database: Database) throws {
        try database.execute(
            literal: """
                DELETE FROM access_token WHERE expires_at <= \(now);
                DELETE FROM offline_grant WHERE id <> \(grantID) AND (expires_at <= \(now) OR idle_expires_at <= \(now));
                DELETE FROM authorization_code WHERE expires_at <= \(now);
                INSERT INTO access_token (digest, grant_id, expires_at)
                    VALUES (\(OpaqueToken.digest(tokens.accessToken)), \(grantID), \(now + Double(tokens.expiresIn)))
                """)
        if let refreshToken = tokens.refreshToken {
            try database.execute(
                literal: """
                    INSERT INTO refresh_token (digest, grant_id, is_used)
                    VALUES (\(OpaqueToken.digest(refreshToken)), \(grantID), 0)
                    """)
        }
    }
}
