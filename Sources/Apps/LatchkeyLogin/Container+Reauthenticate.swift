public import FoundationEssentials
internal import Latchkey
internal import LatchkeyOAuth

extension Container {
    /// Authenticates the session's user again, for example before a payment.
    ///
    /// If biometric login is enabled and the options permit it, the key authenticates the user, as
    /// in ``authenticateBiometric(reason:)``. An earlier proof within the key's reuse time is not
    /// enough. The new session replaces the old one. Otherwise the user logs in with the browser,
    /// as in ``authorize(_:reason:)``, and the session continues with a new ID token. The request
    /// names the user in `id_token_hint`, and the permitted age in `max_age`.
    ///
    /// Afterwards ``authTime`` is the time of this authentication. The app's server must not trust
    /// the app: send it ``idTokenHint``, and let it verify the signature, `sub` and `auth_time`.
    ///
    /// - Returns: The server's claims about the user.
    /// - Throws: ``LoginError``: `unauthenticated` without a session, `cannotReauthenticate` if the
    ///   server cannot, `userMismatch` if another user was authenticated, `invalidToken` if the
    ///   server did not authenticate the user in time, and the errors of
    ///   ``authenticateBiometric(reason:)`` and ``authorize(_:reason:)``. The session is then as it
    ///   was before, unless the server has ended it.
    @discardableResult
    public func reauthenticate(
        _ options: ReauthenticationOptions = ReauthenticationOptions()
    ) async throws -> AuthorizeResult {
        do {
            let begun = now
            guard options.maximumAge >= .zero else {
                throw LoginError.invalidInput("the maximum age is negative")
            }
            try await checkServer()
            try await removeEarlierSession()
            guard let session = try await currentSession() else {
                throw LoginError.unauthenticated()
            }
            let stepUp = StepUp(
                userID: session.userID, begun: begun,
                maximumAge: Int(clamping: options.maximumAge.components.seconds))
            if options.usesBiometric, try await unverified.key() != nil {
                return try await logInWithKey(reason: options.reason, for: stepUp)
            }
            return try await logInAgain(for: stepUp, options.authorization)
        } catch {
            throw error.during("authenticate again")
        }
    }

    /// Whether the server can authenticate the session's user again on its login page, by the
    /// session's latest ID token. False without a session.
    public var canReauthenticate: Bool {
        get async throws { try await latestIDToken?.canReauthenticate ?? false }
    }

    /// When the session's user was last authenticated, by the session's latest ID token and the
    /// server's clock; nil without a session, or if the server does not say it.
    public var authTime: Date? {
        get async throws {
            try await latestIDToken?.authTime.map { Date(timeIntervalSince1970: $0) }
        }
    }

    /// The session's latest ID token, expired or not; nil without a session, or if the server has
    /// sent none. The app's server can verify it.
    public var idTokenHint: String? {
        get async throws {
            do {
                try await checkServer()
                return try await currentSession()?.idToken
            } catch {
                throw error.during("read the session")
            }
        }
    }

    /// Requests a new ID token of the session, with the user's present claims.
    ///
    /// - Throws: ``LoginError``; `unauthenticated` without a session. If the server has ended the
    ///   session, the session on this device ends too.
    public func refreshIDToken() async throws {
        do { _ = try await sessionWithNewIDToken() } catch {
            throw error.during("refresh the ID token")
        }
    }

    private var latestIDToken: IDToken? {
        get async throws {
            guard let compact = try await idTokenHint else { return nil }
            do throws(IDTokenFlaw) { return try IDToken(compact: compact) } catch {
                throw LoginError(.idToken(error)).during("read the ID token")
            }
        }
    }

    private func sessionWithNewIDToken() async throws -> (
        access: LoginAccessToken, idToken: String, claims: IDToken
    ) {
        let (session, access) = try await accessibleSession()
        let server = try await server(of: session)
        do {
            let (compact, date) = try await server.idToken(access: access)
            let claims = try server.client.claims(of: compact, now: now, serverDate: date)
            guard claims.sub == session.userID else {
                throw LoginError.invalidToken("the server's ID token belongs to another user")
            }
            try await keep(idToken: compact, of: session.userID)
            return (access, compact, claims)
        } catch let error as LoginError where error.isInvalidGrant {
            throw try await ended(session, after: error)
        }
    }

    /// Authenticates the user on the server's login page. The session keeps its refresh token.
    private func logInAgain(
        for stepUp: StepUp, _ options: AuthorizationOptions
    ) async throws -> AuthorizeResult {
        let server = try await server(of: currentSession())
        try server.client.checkIDTokenAlgorithms()
        // A server recognizes the session by an ID token that has not expired.
        let (access, hint, claims) = try await sessionWithNewIDToken()
        guard claims.canReauthenticate else { throw LoginError.cannotReauthenticate }
        var options = options
        // The same as `max_age=0` (OpenID Connect Core section 3.1.2.1), for servers without it.
        if stepUp.maximumAge == 0, !options.prompt.contains(.login) { options.prompt += [.login] }
        let login = try await browserLogin(
            server, scope: LoginEndpoints.stepUpScope, options, hint: .idToken(hint),
            maxAge: stepUp.maximumAge)
        // Only a server that ignores the scopes sends one. The session has its own.
        if let unused = login.tokens.refreshToken {
            _ = try? await finish { try await server.revoke(unused) }
        }
        _ = try login.tokens.checked(for: LoginErrorCode.self)
        let token = try await verifiedIDToken(of: login, from: server)
        try stepUp.check(token.sub)
        try stepUp.check(
            token, with: server.client.idTokens, now: now, serverDate: login.serverDate)
        let user = try await server.userInfo(of: stepUp.userID, access: access)
        let compact = try login.tokens.required(.idToken, for: LoginErrorCode.self)
        try await keep(idToken: compact, of: stepUp.userID)
        return AuthorizeResult(userInfo: user, keyID: nil)
    }

    /// Makes an ID token the session's latest, in memory. Another process gets the same claims with
    /// its next refresh.
    private func keep(idToken: String, of userID: String) async throws {
        guard var current = try await currentSession(), current.userID == userID else {
            throw LoginError.unauthenticated()
        }
        current.idToken = idToken
        session = current
    }
}

/// What a new authentication must prove.
struct StepUp: Sendable {
    /// The session's user.
    let userID: String
    /// When the app requested it, by this machine's clock.
    let begun: Date
    /// How long before that the user may have been authenticated, in seconds.
    let maximumAge: Int

    /// - Throws: ``LoginError`` with code `userMismatch` for another user.
    func check(_ user: String) throws(LoginError) {
        guard user == userID else { throw .otherUser }
    }

    /// - Parameter serverDate: The server's clock when it sent the token, if known.
    /// - Throws: ``LoginError`` with code `invalidToken` if the user was authenticated too long
    ///   ago, or the token was issued before the app requested it: a login with a key has no nonce
    ///   that shows that the token is new.
    func check(
        _ token: IDToken, with validator: IDTokenValidator, now: Date, serverDate: Date?
    ) throws(LoginError) {
        do throws(IDTokenFlaw) {
            let age = (serverDate ?? now).timeIntervalSince1970 - token.iat
            guard age <= max(0, now.timeIntervalSince(begun)) + IDTokenValidator.leeway else {
                throw IDTokenFlaw.tooOld
            }
            try validator.checkLogin(
                token, since: begun, maximumAge: TimeInterval(maximumAge), now: now)
        } catch {
            throw LoginError(.idToken(error))
        }
    }
}
