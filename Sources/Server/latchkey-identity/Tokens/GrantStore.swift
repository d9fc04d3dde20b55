import FoundationEssentials
import LatchkeyRelyingParty

/// The stored grants, tokens and authorization codes.
struct GrantStore: Sendable {
    let database: any SQLDatabase
    let clock: WallClock

    /// The user and grant of a valid token.
    struct Session: Sendable {
        let user: User
        let grant: LoginGrant
    }

    /// The session of an access token; nil if it is expired, revoked or unknown, or the user is
    /// disabled.
    func session(accessToken: String) async throws -> Session? {
        let clock = clock
        return try await database.read { database in
            let now = clock.timestamp(in: database)
            let grant = try database.row(
                """
                SELECT offline_grant.* FROM offline_grant JOIN access_token ON grant_id = id
                WHERE digest = \(OpaqueToken.digest(accessToken)) AND access_token.expires_at > \(now)
                    AND offline_grant.expires_at > \(now)
                """
            ).map(LoginGrant.init)
            return try Self.session(grant, in: database)
        }
    }

    /// The session of a refresh token; nil if it is expired, revoked or unknown, or the user is
    /// disabled.
    ///
    /// If the token was replaced before, either this use or the use of its successor is by an
    /// attacker: the grant is revoked (RFC 9700 section 4.14.2).
    func session(refreshToken: String) async throws -> Session? {
        let clock = clock
        return try await database.write { database in
            let token = try database.row(
                "SELECT grant_id, is_used FROM refresh_token WHERE digest = \(OpaqueToken.digest(refreshToken))"
            )
            guard let token else { return nil }
            let id = try token.text("grant_id")
            if try token.bool("is_used") {
                try LoginGrant.delete(id: id, in: database)
                return nil
            }
            let now = clock.timestamp(in: database)
            let grant = try database.row("SELECT * FROM offline_grant WHERE id = \(id)").map(
                LoginGrant.init)
            guard let grant, grant.expiresAt > now, grant.idleExpiresAt > now else { return nil }
            return try Self.session(grant, in: database)
        }
    }

    private static func session(_ grant: LoginGrant?, in database: any SQLConnection) throws
        -> Session?
    {
        guard let grant, let user = try User.user(id: grant.userID, in: database), !user.isDisabled
        else { return nil }
        return Session(user: user, grant: grant)
    }

    /// Stores a new grant and its first tokens, and revokes the grants of the same device.
    ///
    /// - Returns: False if its code was used already, or its enrolment or easy-access key was
    ///   deleted.
    func insert(_ grant: LoginGrant, tokens: TokenResponse, from code: AuthorizationCode? = nil)
        async throws -> Bool
    {
        let clock = clock
        return try await database.write { database in
            if let code {
                let used = try database.execute(
                    "UPDATE authorization_code SET is_used = \(true) WHERE digest = \(code.digest) AND NOT is_used"
                )
                guard used == 1 else {
                    try LoginGrant.delete(id: code.grantID, in: database)
                    return false
                }
            }
            guard try Self.isProven(grant, in: database) else { return false }
            var statements: [SQLText] = []
            if let deviceID = grant.deviceID {
                // One after another: of two logins of a device, the first must be visible to the
                // second.
                if let lock = database.locking("grants of device \(deviceID)") {
                    statements.append(lock)
                }
                statements.append("DELETE FROM offline_grant WHERE device_id = \(deviceID)")
            }
            statements.append(grant.insertion)
            let now = clock.timestamp(in: database)
            try database.execute(
                statements + Self.insertion(of: tokens, of: grant.id, now: now, in: database))
            return true
        }
    }

    /// Whether the enrolment and the easy-access key of a grant exist. The lock keeps them until
    /// the transaction ends.
    private static func isProven(_ grant: LoginGrant, in database: any SQLConnection) throws -> Bool
    {
        guard let enrolmentID = grant.enrolmentID else { return true }
        try LockerRegistry.lock(enrolmentID, in: database)
        guard let kid = grant.easyAccessKeyID else {
            return try database.row(
                "SELECT 1 FROM latchkey_locker_enrolment WHERE id = \(enrolmentID)") != nil
        }
        return try database.row(
            """
            SELECT 1 FROM latchkey_locker_easy_access_key WHERE enrolment_id = \(enrolmentID) AND kid = \(kid)
            """) != nil
    }

    /// Stores the tokens of a refresh. A new refresh token replaces `refreshToken`.
    ///
    /// - Returns: False if another request used the same refresh token first. The grant is then
    ///   revoked.
    func refresh(
        _ grant: LoginGrant, replacing refreshToken: String, with tokens: TokenResponse,
        deviceInfo: String?,
        idleTimeout: Int
    ) async throws -> Bool {
        let clock = clock
        return try await database.write { database in
            let now = clock.timestamp(in: database)
            // The grant's row first, as everywhere, so that two transactions do not wait for each
            // other.
            try database.execute(
                """
                UPDATE offline_grant SET device_info = \(deviceInfo), idle_expires_at = \(now + Double(idleTimeout))
                WHERE id = \(grant.id)
                """)
            let used = try database.execute(
                """
                UPDATE refresh_token SET is_used = \(tokens.refreshToken != nil)
                WHERE digest = \(OpaqueToken.digest(refreshToken)) AND NOT is_used
                """)
            guard used == 1 else {
                try LoginGrant.delete(id: grant.id, in: database)
                return false
            }
            try database.execute(Self.insertion(of: tokens, of: grant.id, now: now, in: database))
            return true
        }
    }

    /// Ends a grant and all its tokens.
    func revoke(grantID: String) async throws {
        try await database.write { try LoginGrant.delete(id: grantID, in: $0) }
    }

    /// Revokes the grant of a refresh token, or an access token alone. Ignores an unknown token.
    func revoke(token: String) async throws {
        let digest = OpaqueToken.digest(token)
        try await database.write {
            try $0.execute(
                "DELETE FROM offline_grant WHERE id IN (SELECT grant_id FROM refresh_token WHERE digest = \(digest))"
            )
            try $0.execute("DELETE FROM access_token WHERE digest = \(digest)")
        }
    }

    func insert(_ code: AuthorizationCode) async throws {
        try await database.write { try code.insert(in: $0) }
    }

    /// The code, also if it was used; nil if it is expired or unknown.
    func code(_ text: String) async throws -> AuthorizationCode? {
        let clock = clock
        return try await database.read {
            try $0.row(
                """
                SELECT * FROM authorization_code
                WHERE digest = \(OpaqueToken.digest(text)) AND expires_at > \(clock.timestamp(in: $0))
                """
            ).map(AuthorizationCode.init)
        }
    }

    /// The statements that store tokens and delete expired rows.
    private static func insertion(
        of tokens: TokenResponse, of grantID: String, now: Double, in database: any SQLConnection
    ) -> [SQLText] {
        let columns: [StaticString] = ["expires_at", "idle_expires_at"]
        var statements = columns.map { column in
            database.deletionOfExpired(
                from: "offline_grant", by: column, at: now, except: "id = \(grantID)")
        }
        statements += [
            database.deletionOfExpired(from: "access_token", at: now),
            database.deletionOfExpired(from: "authorization_code", at: now),
            """
            INSERT INTO access_token (digest, grant_id, expires_at)
            VALUES (\(OpaqueToken.digest(tokens.accessToken)), \(grantID), \(now + Double(tokens.expiresIn)))
            """,
        ]
        if let refreshToken = tokens.refreshToken {
            statements.append(
                """
                INSERT INTO refresh_token (digest, grant_id, is_used)
                VALUES (\(OpaqueToken.digest(refreshToken)), \(grantID), \(false))
                """)
        }
        return statements
    }
}
