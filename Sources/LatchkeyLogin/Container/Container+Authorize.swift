internal import FoundationEssentials
internal import Latchkey

extension Container {
    /// Logs a user in in the browser: authorization code with PKCE, the answer on a loopback port (RFC 8252).
    ///
    /// While biometric login is enabled here, only its owner can log in. The server is asked to see to it, by
    /// `login_hint` where it says that it takes a user id, else by `id_token_hint`; and a
    /// user who gets through all the same is refused here.
    ///
    /// The browser gets a link to a port of this program, which takes the first who comes to the login page: only that
    /// address is in its arguments, where other users can read it. Nobody but programs of the same user is let through,
    /// and a second visit ends the login.
    ///
    /// - Throws: ``LoginError``; `cancelled`, `timedOut`, `linkReused`, `userMismatch` (nothing is changed here and the
    ///   new session is revoked), `invalidToken`; or what `Browser.open(_:)` throws.
    @discardableResult
    public func authorize(_ options: AuthorizationOptions = AuthorizationOptions()) async throws -> AuthorizeResult {
        let operation = "log in"
        let server = try await server(for: operation)
        let request = AuthorizationRequest(
            clientID: configuration.clientID, options: options, hint: try await hint(server, operation))
        let page = server.document.authorization
        let listener = try await LoopbackListener.start(
            operation, page: { request.url(at: page, redirectURI: $0) }, accept: { request.answer($0) })
        let answer: AuthorizationAnswer
        do {
            answer = try await show(listener, options.timeout, operation)
        } catch {
            await listener.close()
            throw error
        }
        await listener.close()
        switch answer {
        case .code(let code): return try await redeem(code, request, listener.redirectURI, server)
        case .refused(let error) where error.error == "cancel" || error.error == "access_denied":
            throw LoginError.cancelled(operation, "it was cancelled in the browser")
        case .refused(let error): throw LoginError.oauth(operation, error, status: nil)
        case .linkReused: throw LoginError.linkReused(operation)
        }
    }

    /// Opens the page and waits. A browser that stays in the foreground until the person is done is as good as one
    /// that does not.
    private func show(
        _ listener: LoopbackListener, _ timeout: Duration, _ operation: String
    ) async throws -> AuthorizationAnswer {
        let browser = browser
        return try await withThrowingTaskGroup(of: AuthorizationAnswer?.self) { group in
            group.addTask { try await listener.answer(within: timeout, operation) }
            group.addTask {
                try await browser.open(listener.link)
                return nil
            }
            defer { group.cancelAll() }
            while let outcome = try await group.next() {
                if let outcome { return outcome }
            }
            throw LoginError.cancelled(operation)
        }
    }

    private func hint(
        _ server: IdentityServer, _ operation: String
    ) async throws -> AuthorizationRequest.UserHint? {
        guard let owner = try await rows.key()?.userID else { return nil }
        if server.document.takesUserIDHint { return .userID(owner) }
        return try await rows.hint(for: PromptContext(reason: operation, container: name)).map { .idToken($0) }
    }

    private func redeem(
        _ code: String, _ request: AuthorizationRequest, _ redirectURI: String, _ server: IdentityServer
    ) async throws -> AuthorizeResult {
        let (tokens, date) = try await server.exchange(code: code, verifier: request.pkce, redirectURI: redirectURI)
        return try await adopt(tokens, keyID: nil, server) { [configuration] in
            guard let compact = tokens.idToken else {
                throw LoginError.invalidToken(server.operation, "the server gave no ID token")
            }
            let verifier = IDTokenVerifier(
                operation: server.operation, issuer: server.document.issuer, clientID: configuration.clientID)
            return try await verifier.verify(
                compact, keys: server.keys(), nonce: request.nonce, accessToken: tokens.accessToken,
                now: configuration.now(), serverDate: date
            ).sub
        }
    }

    /// Makes new tokens the current session, if they are right; otherwise has the server revoke them.
    ///
    /// - Parameter subject: Finds out for whom they are.
    func adopt(
        _ tokens: TokenResponse, keyID: KeyID?, _ server: IdentityServer, subject: @Sendable () async throws -> String
    ) async throws -> AuthorizeResult {
        guard let refreshToken = tokens.refreshToken else {
            throw LoginError.invalidResponse(server.operation, "the server gave no refresh token")
        }
        do {
            let access = AccessToken(tokens, receivedAt: now)
            let userID = try await subject()
            try await checkOwner(userID, server.operation)
            let user = try await server.userInfo(access: access)
            guard user.userID == userID else {
                throw LoginError.invalidResponse(server.operation, "the server answered for another user")
            }
            try await checkOwner(userID, server.operation)
            let session = Session(
                userID: userID, refreshToken: refreshToken, idToken: tokens.idToken, access: access)
            _ = try await store(session, [LoginRows.put(lastUser: userID)], ifGeneration: nil, server.operation)
            observers.tell(.authenticated)
            return AuthorizeResult(userInfo: user, keyID: keyID)
        } catch {
            _ = try? await finish { try await server.revoke(refreshToken) }
            throw error
        }
    }

    /// Lets nobody but the key's owner in.
    private func checkOwner(_ userID: String, _ operation: String) async throws {
        if let owner = try await rows.key()?.userID, owner != userID { throw LoginError.userMismatch(operation) }
    }
}
