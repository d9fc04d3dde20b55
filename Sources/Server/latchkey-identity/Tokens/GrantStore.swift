import FoundationEssentials
import LatchkeyRelyingParty

/// The stored grants, tokens and authorization codes.
struct GrantStore: Sendable {
    let database: any SQLDatabase
    let clock: WallClock
    let policy: GrantPolicy

    /// The session of an access token; nil if it is expired, revoked or unknown, or if the request
    /// does not present it as what it is.
    ///
    /// - Parameter isBound: Whether the request presents it as bound to a key (RFC 9449 section 7.1).
    /// - Throws: The reason why its key may not be used now (``GrantPolicy``).
    func session(
        accessToken: String, isBound: Bool = false, provenBy possession: Possession = .key(nil)
    ) async throws -> Session? {
        let find = { @Sendable [clock, policy] (database: any SQLConnection) -> Session? in
            let now = clock.timestamp(in: database)
            let row = try database.row(
                """
                SELECT offline_grant.*, access_token.dpop_jkt AS token_jkt
                FROM offline_grant JOIN access_token ON grant_id = id
                WHERE digest = \(OpaqueToken.digest(accessToken)) AND access_token.expires_at > \(now)
                    AND offline_grant.expires_at > \(now)
                """)
            // RFC 9449 section 7.2: a bound token is no bearer token.
            guard let row, try (row.optionalText("token_jkt") != nil) == isBound else { return nil }
            return try policy.session(LoginGrant(row), provenBy: possession, in: database)
        }
        // Only a proof is stored.
        return if case .key(_?) = possession { try await database.write(find) } else {
            try await database.read(find)
        }
    }

    /// The session of a refresh token; nil if it is expired, revoked or unknown.
    ///
    /// If the token was replaced before, either this use or the use of its successor is by an
    /// attacker: the grant is revoked (RFC 9700 section 4.14.2).
    ///
    /// - Throws: The reason why its key may not be used now (``GrantPolicy``). The token stays
    ///   valid.
    func session(_ token: RefreshToken, provenBy proof: DPoPProof? = nil) async throws -> Session? {
        try await database.write { [clock, policy] database in
            guard let row = try Self.row(of: token, in: database) else { return nil }
            guard try row.blob("refresh_digest") == token.digest else {
                try LoginGrant.delete(id: token.grantID, in: database)
                return nil
            }
            let grant = try LoginGrant(row)
            guard grant.idleExpiresAt > clock.timestamp(in: database) else { return nil }
            return try policy.session(grant, provenBy: .key(proof), in: database)
        }
    }

    /// Decides whether the device key of an enrolment, which signed a request, may be used in a
    /// session now (``GrantPolicy``).
    func permit(_ enrolment: LockerEnrolment, in session: Session) async throws
        -> PermittedEnrolment
    {
        try await database.read { [policy] in
            try policy.permit(
                enrolment, userID: session.user.id, clientID: session.grant.clientID, in: $0)
        }
    }

    /// The grant to which a refresh token belongs, current or replaced.
    private static func row(of token: RefreshToken, in database: any SQLConnection) throws
        -> SQLRow?
    {
        try database.row(
            """
            SELECT * FROM offline_grant
            WHERE id = \(token.grantID) AND refresh_family = \(token.familyDigest)
            """)
    }

    /// Stores a new grant and its first tokens, and revokes the grants of the same device.
    ///
    /// - Returns: The session; nil if its code was used already, or the user or the key no longer
    ///   exists.
    /// - Throws: The reason why the key may not open a session now (``GrantPolicy``).
    func insert(
        _ grant: LoginGrant, provenBy proof: GrantProof, tokens: NewTokens,
        keyProof: DPoPProof? = nil, from code: AuthorizationCode? = nil
    ) async throws -> Session? {
        try await database.write { [clock, policy] database in
            guard
                let session = try policy.open(
                    grant, provenBy: proof, keyProof: keyProof, in: database)
            else { return nil }
            if let code, try !Self.use(code, in: database) { return nil }
            var statements: [SQLText] = []
            if let deviceID = grant.deviceID {
                // One after another: of two logins of a device, the first must be visible to the
                // second.
                if let lock = database.locking("grants of device \(deviceID)") {
                    statements.append(lock)
                }
                statements.append("DELETE FROM offline_grant WHERE device_id = \(deviceID)")
            }
            statements.append(grant.insertion(tokens.refresh))
            statements.append(
                Self.insertion(of: tokens, of: grant.id, now: clock.timestamp(in: database)))
            try database.execute(statements)
            return session
        }
    }

    /// Stores the tokens of a refresh. Their refresh token replaces `refreshToken`.
    ///
    /// - Returns: False if another request used the same refresh token first. The grant is then
    ///   revoked.
    func refresh(
        _ session: Session, replacing refreshToken: RefreshToken, with tokens: NewTokens
    ) async throws -> Bool {
        let grant = session.grant
        return try await database.write { [clock] database in
            let now = clock.timestamp(in: database)
            let used = try database.execute(
                """
                UPDATE offline_grant SET refresh_digest = \(tokens.refresh?.digest),
                    idle_expires_at = \(min(now + RefreshToken.idleTimeout, grant.expiresAt))
                WHERE id = \(grant.id) AND refresh_digest = \(refreshToken.digest)
                """)
            guard used == 1 else {
                try LoginGrant.delete(id: grant.id, in: database)
                return false
            }
            try database.execute(Self.insertion(of: tokens, of: grant.id, now: now))
            return true
        }
    }

    /// The session of a grant for a browser, which has a secret of its own; nil if it is expired or
    /// revoked.
    ///
    /// - Throws: The reason why its key may not be used now (``GrantPolicy``).
    func session(grantID: String) async throws -> Session? {
        try await database.read { [clock, policy] database in
            try Self.grant(grantID, at: clock.timestamp(in: database), in: database).flatMap {
                try policy.session($0, provenBy: .notRequired, in: database)
            }
        }
    }

    /// The grant that a login continues; nil if the login begins one, or the grant has ended.
    ///
    /// The new access token has the grant's scopes. A request of other scopes therefore begins a
    /// grant; `offline_access` makes no difference, because the grant keeps its refresh token.
    func continued(by request: AuthorizationRequest, of user: User) async throws -> String? {
        guard let id = request.hintedGrantID, let session = try await session(grantID: id),
            session.user.id == user.id, session.grant.clientID == request.client.id,
            // A session of the locker ends with its own proof.
            session.grant.enrolmentID == nil,
            session.grant.scopes.symmetricDifference(request.scopes)
                .isSubset(of: [Scope.offlineAccess])
        else { return nil }
        return id
    }

    /// Records that the user of a grant was authenticated again, with the password, and stores
    /// access tokens of the grant.
    ///
    /// - Returns: The session; nil if its code was used already, or the session has ended.
    /// - Throws: The reason why its key may not be used now (``GrantPolicy``).
    func reauthenticate(
        with code: AuthorizationCode, tokens: NewTokens, keyProof: DPoPProof?
    ) async throws -> Session? {
        try await database.write { [clock, policy] database in
            let now = clock.timestamp(in: database)
            guard try Self.use(code, in: database) else { return nil }
            try database.execute(
                """
                UPDATE offline_grant SET auth_time = \(code.authTime), amr = NULL
                WHERE id = \(code.grantID) AND user_id = \(code.userID)
                    AND client_id = \(code.clientID) AND auth_time <= \(code.authTime)
                """)
            guard let grant = try Self.grant(code.grantID, at: now, in: database),
                let session = try policy.session(grant, provenBy: .key(keyProof), in: database)
            else { return nil }
            try database.execute(Self.insertion(of: tokens, of: grant.id, now: now))
            return session
        }
    }

    private static func grant(_ id: String, at now: Double, in database: any SQLConnection) throws
        -> LoginGrant?
    {
        try database.row(
            """
            SELECT * FROM offline_grant
            WHERE id = \(id) AND expires_at > \(now) AND idle_expires_at > \(now)
            """
        ).map(LoginGrant.init)
    }

    /// Marks a code as used.
    ///
    /// - Returns: False if it was used already. Its grant is then revoked.
    private static func use(_ code: AuthorizationCode, in database: any SQLConnection) throws
        -> Bool
    {
        let used = try database.execute(
            "UPDATE authorization_code SET is_used = \(true) WHERE digest = \(code.digest) AND NOT is_used"
        )
        if used != 1 { try LoginGrant.delete(id: code.grantID, in: database) }
        return used == 1
    }

    /// Ends a grant and all its tokens.
    func revoke(grantID: String) async throws {
        try await database.write { try LoginGrant.delete(id: grantID, in: $0) }
    }

    /// Revokes the grant of a refresh token, or an access token alone. Ignores an unknown token.
    ///
    /// - Parameter clientID: The client that must have the token; nil for any.
    /// - Returns: False if another client has the token (RFC 7009 section 2.1).
    func revoke(token: String, of clientID: String?) async throws -> Bool {
        try await database.write { database in
            let refresh = RefreshToken(token)
            let digest = OpaqueToken.digest(token)
            let refreshed = try refresh.flatMap { try Self.row(of: $0, in: database) }
            let row =
                try refreshed
                ?? database.row(
                    """
                    SELECT offline_grant.* FROM offline_grant JOIN access_token ON grant_id = id
                    WHERE digest = \(digest)
                    """)
            guard let row else { return true }
            guard try clientID == nil || row.text("client_id") == clientID else { return false }
            if let refresh, refreshed != nil {
                try LoginGrant.delete(id: refresh.grantID, in: database)
            } else {
                try database.execute("DELETE FROM access_token WHERE digest = \(digest)")
            }
            return true
        }
    }

    /// Stores a code.
    func insert(_ code: AuthorizationCode) async throws {
        try await database.write { try code.insert(in: $0) }
    }

    /// Stores what a session requested, if the session has not ended since. It cannot end until
    /// the transaction ends.
    ///
    /// - Returns: The value of `body`; nil, without a call of it, if the session has ended.
    func write<Value: Sendable>(
        for session: Session, _ body: @escaping @Sendable (any SQLConnection) throws -> Value
    ) async throws -> Value? {
        let condition: SQLText = "id = \(session.grant.id)"
        return try await database.write { database in
            guard try Self.lock("offline_grant", where: condition, in: database) else { return nil }
            return try body(database)
        }
    }

    /// Locks a session's row: it cannot end until the transaction ends. Requests wait in turn, also a
    /// revocation, which many of them cannot delay.
    ///
    /// - Returns: False if there is no such row.
    static func lock(
        _ table: SQLText, where condition: SQLText, in database: any SQLConnection
    ) throws -> Bool {
        let locking: SQLText =
            switch database.dialect {
            case .sqlite: ""
            case .postgreSQL: "FOR NO KEY UPDATE"
            }
        return try database.row("SELECT 1 FROM \(table) WHERE \(condition) \(locking)") != nil
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

    private static func insertion(of tokens: NewTokens, of grantID: String, now: Double)
        -> SQLText
    {
        """
        INSERT INTO access_token (digest, grant_id, dpop_jkt, expires_at)
        VALUES (\(OpaqueToken.digest(tokens.access)), \(grantID), \(tokens.keyThumbprint),
            \(now + Double(tokens.expiresIn)))
        """
    }
}
