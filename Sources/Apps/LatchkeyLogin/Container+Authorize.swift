internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyOAuth

extension Container {
    /// Logs a user in with the browser: authorization code with PKCE, and the response on a
    /// loopback port (RFC 8252).
    ///
    /// While biometric login is enabled on this device, only the owner of the key can log in. The
    /// request names the owner, in `login_hint` if the server announces that it takes a user id,
    /// otherwise in `id_token_hint`. Another user is refused, even if the server accepts the login.
    ///
    /// The browser gets a link to a port of this process, which redirects to the login page. Other
    /// users can read the browser's arguments, so the arguments contain only that link. Only
    /// programs of the same user are redirected. Where the system does not show which user opened a
    /// connection, a second request for the link ends the login.
    ///
    /// Creates the key that protects the session, if it does not exist, before the browser opens,
    /// because a token may prompt or refuse to create it.
    ///
    /// - Parameter reason: The reason in prompts, as the end of "APPLICATION asks for your PIN to
    ///   …". If nil, it names the server.
    /// - Throws: ``LoginError``: `cancelled`, `timedOut`, `linkReused`, `userMismatch` (the new
    ///   session is revoked, and nothing changes on this device), or `invalidToken`. Errors of
    ///   `Browser.open(_:)`.
    @discardableResult
    public func authorize(
        _ options: AuthorizationOptions = AuthorizationOptions(), reason: String? = nil
    ) async throws -> AuthorizeResult {
        do {
            let prompt = prompt("log in to", reason: reason)
            let server = try await serverOfLogin(for: prompt)
            let hint = try await hint(server.metadata, options, for: prompt)
            return try await adopt(
                browserLogin(server, scope: LoginEndpoints.scope, options, hint: hint), server)
        } catch {
            await forgetKey(after: error)
            throw error.during("log in")
        }
    }

    /// The server of a new login, after all checks that need no user.
    ///
    /// - Parameter check: Checks that the server offers this kind of login.
    func serverOfLogin(
        for prompt: PromptContext, _ check: (LoginEndpoints) throws -> Void = { _ in }
    ) async throws -> LoginEndpoints {
        try await checkServer()
        try records.store.checkWritable()
        let server = try await server()
        try check(server)
        try await removeEarlierSession()
        try server.client.checkIDTokenAlgorithms()
        try await records.open(.device, for: prompt, authorizedBy: presence)
        return try await proving(server, for: prompt)
    }

    /// The hint that names the key's owner.
    private func hint(
        _ metadata: ProviderMetadata, _ options: AuthorizationOptions, for prompt: PromptContext
    ) async throws -> AuthorizationRequest.UserHint? {
        guard let owner = try await unverified.key()?.userID else { return nil }
        // A request has one `login_hint`.
        if metadata.takesUserIDHint, options.loginHint == nil { return .userID(owner) }
        return try await rows.hint(for: prompt).map { .idToken($0) }
    }

    /// Shows the login page, and redeems the code that it returns.
    func browserLogin(
        _ server: LoginEndpoints, scope: String, _ options: AuthorizationOptions,
        hint: AuthorizationRequest.UserHint?, maxAge: Int? = nil
    ) async throws -> BrowserLogin {
        let request = AuthorizationRequest(
            clientID: configuration.clientID, scope: scope, options: options,
            issuer: server.metadata.issuer, requiresIssuer: server.metadata.sendsIssuer,
            hint: hint, maxAge: maxAge, keyThumbprint: server.prover?.key.thumbprint)
        do {
            let grant = try await request.grant(
                at: server.client.endpoint(.authorization), in: browser)
            let (tokens, date) = try await server.exchange(grant)
            return BrowserLogin(tokens: tokens, nonce: grant.nonce, serverDate: date)
        } catch let failure as AuthorizationFailure {
            throw LoginError(.authorization(failure))
        }
    }

    /// Verifies the ID token of a login in the browser.
    func verifiedIDToken(
        of login: BrowserLogin, from server: LoginEndpoints
    ) async throws -> IDToken {
        let compact = try login.tokens.required(.idToken, for: LoginErrorCode.self)
        try await server.client.verifySignature(of: compact, with: server.client.keys())
        return try server.client.claims(
            of: compact, .init(nonce: login.nonce, accessToken: login.tokens.accessToken),
            now: now, serverDate: login.serverDate)
    }

    /// Verifies the tokens of a login in a browser, and makes them the current session.
    func adopt(_ login: BrowserLogin, _ server: LoginEndpoints) async throws -> AuthorizeResult {
        try await adopt(login.tokens, keyID: nil, server) {
            try await self.verifiedIDToken(of: login, from: server).sub
        }
    }

    /// Makes new tokens the current session if they are valid, or revokes them on the server.
    ///
    /// - Parameter subject: Returns the id of the user that they belong to.
    func adopt(
        _ tokens: TokenResponse, keyID: KeyID?, _ server: LoginEndpoints,
        subject: @Sendable () async throws -> String
    ) async throws -> AuthorizeResult {
        do {
            let tokens = try tokens.checked(for: LoginErrorCode.self)
            let refreshToken = SecretBytes(
                try tokens.required(.refreshToken, for: LoginErrorCode.self).utf8)
            let access = try accessToken(tokens)
            let userID = try await subject()
            try await checkOwner(userID)
            let user = try await server.userInfo(of: userID, access: access)
            let stored = try await checkOwner(userID)
            let session = LoginSession(
                userID: userID, refreshToken: refreshToken, idToken: tokens.idToken,
                boundKey: server.prover?.key.id, access: access)
            let key = try await insertion(of: server.prover)
            let names = LoginRows.put(
                lastUser: user, hasStoredSession: configuration.tokenStorage == .persistent)
            _ = try await store(session, names + [key].compactMap(\.self), ifGeneration: nil)
            observers.tell(SessionStateChange(.authenticated))
            // Keys that an earlier logout or deactivation could not remove from the server.
            if stored.mayHaveLeftovers, server.metadata[.biometricRemoval] != nil {
                try? await finish {
                    try await self.removeLeftovers(
                        IdentityRemoval(server: server, userID: userID, access: access))
                }
            }
            return AuthorizeResult(userInfo: user, keyID: keyID)
        } catch {
            if let unused = tokens.refreshToken {
                _ = try? await finish { try await server.revoke(unused) }
            }
            throw error
        }
    }

    func accessToken(_ tokens: TokenResponse) throws(LoginError) -> LoginAccessToken {
        do throws(TokenResponseFlaw) {
            return try LoginAccessToken(tokens, receivedAt: now)
        } catch {
            throw LoginError(.tokens(error))
        }
    }

    /// Refuses users other than the key's owner, and a key of another server.
    @discardableResult
    private func checkOwner(_ userID: String) async throws -> UnverifiedRows.Login {
        let login = try await checkServer()
        let key = login.rows.first { $0.id == LoginRows.keyID }
        if let owner = try key.map(BiometricKey.init)?.userID, owner != userID {
            throw LoginError.userMismatch
        }
        return login
    }
}

/// The tokens of a login in a browser, not verified.
struct BrowserLogin: Sendable {
    let tokens: TokenResponse
    /// The nonce that the ID token must contain; nil if the request had none.
    let nonce: String?
    /// The server's clock when it sent the tokens.
    let serverDate: Date?
}
