internal import Latchkey
public import LatchkeyJOSE
public import LatchkeyOAuth

/// An OAuth 2.0 client of one server, for operations with tokens that the app has received and not
/// stored.
///
/// It opens no stored token, so it never prompts. The operations do not change the store. For the
/// token of a credential, see ``Credential/revoke(type:reason:)``.
public struct OAuth2Client: Sendable {
    fileprivate let store: CredentialStore
    /// The server and client. That of a credential is read at each use.
    fileprivate let context: @Sendable () throws -> Token.Context

    /// A client that needs no stored token. It sends its requests as the app's shared store does.
    ///
    /// - Parameters:
    ///   - issuer: The server's address: an absolute `https` URL, or `http` on a loopback host. The
    ///     first operation checks it.
    ///   - clientID: The OAuth client id.
    ///   - clientSecret: The client's secret, if any.
    /// - Throws: ``CredentialError`` before ``CredentialStore/bootstrap(_:)``.
    public init(issuer: String, clientID: String, clientSecret: String? = nil) throws {
        let context = Token.Context(
            issuer: issuer, clientID: clientID, clientSecret: clientSecret)
        self.init(store: try Credential.requiredStorage) { context }
    }

    init(
        store: CredentialStore, context: @escaping @Sendable () throws -> Token.Context
    ) {
        self.store = store
        self.context = context
    }

    /// The server's address.
    ///
    /// - Throws: ``CredentialError`` with code `notFound` if the credential was removed.
    public var issuer: String {
        get throws { try context().issuer }
    }

    /// The OAuth client id.
    ///
    /// - Throws: ``CredentialError`` with code `notFound` if the credential was removed.
    public var clientID: String {
        get throws { try context().clientID }
    }

    /// Requests the claims of a token's user (OpenID Connect Core section 5.3).
    ///
    /// - Throws: ``CredentialError``; `refused` for a token of another server or client.
    public func userInfo(token: Token) async throws -> Credential.UserInfo {
        try await perform("fetch the user's data", with: token) { try await $0.userInfo(token) }
    }

    /// Requests the state of one of a token's secrets (RFC 7662).
    ///
    /// - Throws: ``CredentialError``; `refused` for a token of another server or client,
    ///   `unsupported` if the server has no introspection endpoint, `missingToken`.
    public func introspect(token: Token, type: Token.Kind = .accessToken) async throws
        -> TokenIntrospection
    {
        try await perform("introspect the \(type.words)", with: token) {
            try await $0.introspect(type, of: token)
        }
    }

    /// Redeems the authorization code of the app's own login for the first token (RFC 6749 section
    /// 4.1.3, RFC 7636 section 4.5). Store the result with ``Credential/store(token:tags:)``.
    ///
    /// The app opens the page ``OpenIdConfiguration/authorizationEndpoint``, and checks `state` in the
    /// answer. A code that may be another server's is not sent. An ID token in the response is validated
    /// with the server's keys. If it is not valid, the new tokens are revoked.
    ///
    /// - Parameters:
    ///   - code: The parameter `code` of the answer to the authorization request.
    ///   - issuer: The parameter `iss` of the answer (RFC 9207); nil for an answer without one. If it
    ///     names another server, or is missing although this server announces it, the code is refused.
    ///   - codeVerifier: That of the request: `PKCE.codeVerifier`.
    ///   - redirectURI: The parameter `redirect_uri` of the request.
    ///   - nonce: The parameter `nonce` of the request, which the ID token must have; nil for a request
    ///     without one. With a nonce, the response must have an ID token.
    ///   - key: The key to which the server binds the token: see
    ///     ``CredentialStore/dpopKey(issuer:clientID:)``; nil for a token that is not bound.
    /// - Throws: ``CredentialError``: `oauthError` if the server refuses the code, `unsupported`,
    ///   `network`, `invalidResponse`, also for a code that may be another server's, `invalidToken`. A
    ///   code can be redeemed once.
    public func exchange(
        authorizationCode code: String, issuer: String?, codeVerifier: String, redirectURI: String,
        nonce: String? = nil, boundTo key: DPoPKey? = nil
    ) async throws -> Token {
        do {
            return try await store.server(of: try context().bound(to: key)).redeem(
                code, from: issuer, verifier: codeVerifier, redirectURI: redirectURI,
                nonce: nonce, at: store.configuration.clock.now)
        } catch {
            throw error.during("redeem the code of the login")
        }
    }

    /// Uses a token's refresh token. Store the result, or keep it: most servers accept a refresh token
    /// once. Tasks that refresh one token at the same time share one request.
    ///
    /// - Parameter token: A token that is not stored. ``Credential/refresh(reason:)`` refreshes a
    ///   stored one.
    /// - Returns: The new token. It has the id, and the members that the server does not renew.
    /// - Throws: ``CredentialError``: `refused` for a stored token, or one of another server or
    ///   client; otherwise as ``Token/from(refreshToken:using:boundTo:)``.
    public func refresh(_ token: Token) async throws -> Token {
        try await perform("refresh the token", with: token) { _ in
            guard try !store.rows.exists(token.id) else {
                throw CredentialError(
                    code: .refused, reason: "the token is stored as a credential",
                    recovery: "Refresh the credential.")
            }
            return try await store.refreshes.join(token.id) { try await refreshed(token) }
        }
    }

    /// Exchanges the refresh token of a token that is not stored, and validates the response.
    fileprivate func refreshed(_ token: Token) async throws -> Token {
        guard let refreshToken = token.refreshToken else {
            throw CredentialError.missing("refresh token")
        }
        let now = store.configuration.clock.now
        let given = GivenRefreshToken(
            context: token.context, refreshToken: Redacted(value: refreshToken))
        let latest = store.refreshes.successor(of: given).map(token.with) ?? token
        let server = store.server(of: token.context)
        try await server.readKeys()
        let answer = try await server.exchange(latest, at: now)
        store.refreshes.setSuccessor(answer.token.refreshToken, of: given)
        if let flaw = answer.flaw { throw flaw }
        try await server.check(answer, after: latest)
        store.refreshes.setSuccessor(nil, of: given)
        return answer.token
    }

    /// The server's metadata (OpenID Connect Discovery 1.0 section 3), which is read once in an hour.
    ///
    /// - Throws: ``CredentialError``; `invalidResponse` if the metadata names another issuer, or an
    ///   endpoint of a login at an origin that must not get this server's codes.
    public func openIdConfiguration() async throws -> OpenIdConfiguration {
        do {
            return try await server.configuration
        } catch {
            throw error.during("read the server's metadata")
        }
    }

    /// The server's public keys, which are read once in an hour.
    ///
    /// - Throws: ``CredentialError``.
    public func jwks() async throws -> JWKS {
        do {
            return try await server.keySet
        } catch {
            throw error.during("read the server's keys")
        }
    }

    private var server: CredentialServer {
        get throws { store.server(of: try context()) }
    }

    /// Revokes a token, or one of its secrets, on the server (RFC 7009).
    ///
    /// - Throws: ``CredentialError``; `refused` for a token of another server or client,
    ///   `unsupported` if the server has no revocation endpoint, `missingToken`. If one request
    ///   fails, the earlier secrets are already revoked.
    public func revoke(_ token: Token, type: Credential.RevokeType = .all) async throws {
        try await perform("revoke the token", with: token) { server in
            for kind in try Credential.kinds(type, of: token) {
                try await server.revoke(kind, of: token)
            }
        }
    }

    private func perform<R>(
        _ operation: String, with token: Token, _ body: (CredentialServer) async throws -> R
    ) async throws -> R {
        do {
            guard try token.context.issuer == issuer, try token.context.clientID == clientID else {
                throw CredentialError(
                    code: .refused, reason: "the token belongs to another server or client",
                    recovery: "Use an OAuth2Client of that server and client.")
            }
            return try await body(store.server(of: token.context))
        } catch {
            throw error.during(operation)
        }
    }
}

extension Credential {
    /// The OAuth 2.0 client of the credential, without the client's secret. Does not open the token
    /// or prompt.
    public var oauth2: OAuth2Client {
        OAuth2Client(store: store) {
            let metadata = try self.metadata
            return Token.Context(issuer: metadata.server, clientID: metadata.clientID)
        }
    }
}

extension Token {
    /// Uses a refresh token that the app has from elsewhere, for example from an earlier version of
    /// the app. Store the result at once: most servers accept a refresh token once.
    ///
    /// An ID token in the response is validated with the server's keys, which are read first.
    ///
    /// - Parameter key: The key to which the server bound the refresh token: see
    ///   ``CredentialStore/dpopKey(issuer:clientID:)``; nil for a refresh token that is not bound.
    /// - Throws: ``CredentialError``: `signInAgain` if the server refuses the refresh token,
    ///   `unsupported`, `network`, `invalidResponse`, `invalidToken`. The server may then have
    ///   replaced the refresh token. Until this process ends, the client's store keeps the new one
    ///   in memory, and a further call with the same refresh token uses it.
    public static func from(
        refreshToken: String, using client: OAuth2Client, boundTo key: DPoPKey? = nil
    ) async throws -> Token {
        do {
            let context = try client.context().bound(to: key)
            let known = Token(
                id: newID(), issuedAt: client.store.configuration.clock.now, context: context,
                idToken: nil, checked: [Member.refreshToken.rawValue: .string(refreshToken)])
            return try await client.refreshed(known)
        } catch {
            throw error.during("use the refresh token")
        }
    }
}
