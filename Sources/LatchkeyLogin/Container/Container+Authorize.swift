internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyOAuth

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
        try await checkServer(operation)
        let server = try await server(for: operation)
        let request = AuthorizationRequest(
            clientID: configuration.clientID, scope: IdentityServer.scope, options: options,
            server: server.document.metadata, hint: try await hint(server, operation))
        do {
            return try await redeem(request.grant(at: server.document.authorization, in: browser), server)
        } catch let failure as AuthorizationFailure {
            throw LoginError(operation, failure)
        }
    }

    private func hint(
        _ server: IdentityServer, _ operation: String
    ) async throws -> AuthorizationRequest.UserHint? {
        guard let owner = try await metadata.key()?.userID else { return nil }
        if server.document.takesUserIDHint { return .userID(owner) }
        return try await rows.hint(for: PromptContext(reason: operation, container: name)).map { .idToken($0) }
    }

    private func redeem(
        _ grant: AuthorizationGrant, _ server: IdentityServer
    ) async throws -> AuthorizeResult {
        let (tokens, date) = try await server.exchange(grant)
        return try await adopt(tokens, keyID: nil, server) { [configuration] in
            guard let compact = tokens.idToken else {
                throw LoginError.invalidToken(server.operation, "the server gave no ID token")
            }
            let verifier = IDTokenVerifier(issuer: server.document.issuer, clientID: configuration.clientID)
            let keys = try await server.keys()
            do throws(IDTokenFlaw) {
                return try verifier.verify(
                    compact, keys: keys, nonce: grant.nonce, accessToken: tokens.accessToken,
                    now: configuration.now(), serverDate: date
                ).sub
            } catch {
                throw LoginError(server.operation, error)
            }
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

    /// Accepts no other user than the key's owner, and no key of another server.
    private func checkOwner(_ userID: String, _ operation: String) async throws {
        try await checkServer(operation)
        if let owner = try await metadata.key()?.userID, owner != userID { throw LoginError.userMismatch(operation) }
    }
}
