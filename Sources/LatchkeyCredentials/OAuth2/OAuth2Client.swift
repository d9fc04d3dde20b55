internal import FoundationEssentials
internal import HTTPTypes
internal import Latchkey

/// A server's OAuth and OpenID Connect endpoints as calls, for one client. It stores nothing.
///
/// The endpoints come from the server's discovery document, which is read when it is first needed and kept for an hour,
/// like the server's keys.
public struct OAuth2Client: Sendable {
    public let context: Token.Context
    let servers: ServerDirectory
    let transport: any HTTPTransport
    let clock: any CredentialClock

    /// Checks an ID token, with the server's keys. A key that is not known makes the keys be read again, once.
    ///
    /// - Throws: ``CredentialError`` with code `invalidToken`; `network` when the keys can't be read.
    public func validate(
        _ token: JWT, with companions: IDTokenValidator.Companions = .init()
    ) async throws(CredentialError) {
        let operation = "check the ID token"
        let provider = try await provider(operation)
        let keys = try await servers.keys(provider, for: JWS.parse(token.rawValue), operation)
        try IDTokenValidator(issuer: provider.issuer, clientID: context.clientID)
            .validate(token, keys: keys.keys, with: companions, at: clock.now)
    }

    /// A new token for the old one's refresh token. What the server leaves out stays as it was, and so does the id.
    ///
    /// The old refresh token may be good for nothing afterwards: store the new token before anything else.
    ///
    /// - Throws: ``CredentialError``; `missingToken` without a refresh token, `signInAgain` when the server takes it no
    ///   more, `invalidToken` for an ID token that is not this user's.
    public func refresh(_ token: Token) async throws(CredentialError) -> Token {
        let operation = "refresh the credential"
        guard let refreshToken = token.refreshToken else { throw .missing(operation, "refresh token") }
        let provider = try await provider(operation)
        // Before the refresh token is used up, everything else that can fail.
        let keys: JWKSet? = token.idToken == nil ? nil : try await servers.keys(provider, operation)
        let form = [("grant_type", "refresh_token"), ("refresh_token", refreshToken)]
        let body: Data
        do {
            body = try await post(provider.token, form, provider, operation)
        } catch {
            throw error.ofRefresh
        }
        let fresh = try token.refreshed(by: body, at: clock.now, operation)
        try await check(fresh, after: token, provider, keys, operation)
        return fresh
    }

    /// Has the server forget one of the token's secrets (RFC 7009).
    ///
    /// - Throws: ``CredentialError``; `unsupported` when the server has no place for that.
    public func revoke(_ kind: Token.Kind, of token: Token) async throws(CredentialError) {
        let operation = "revoke the \(kind.words)"
        guard let secret = token[kind] else { throw .missing(operation, kind.words) }
        let provider = try await provider(operation)
        guard let endpoint = provider.revocation else {
            throw .unsupported(operation, "the server can't", recovery: "Remove the credential from this device.")
        }
        _ = try await post(endpoint, [("token", secret), ("token_type_hint", kind.rawValue)], provider, operation)
    }

    /// What the server says about one of the token's secrets (RFC 7662).
    ///
    /// - Throws: ``CredentialError``; `unsupported` when the server has no place for that.
    public func introspect(_ kind: Token.Kind, of token: Token) async throws(CredentialError) -> TokenIntrospection {
        let operation = "introspect the \(kind.words)"
        guard let secret = token[kind] else { throw .missing(operation, kind.words) }
        let provider = try await provider(operation)
        guard let endpoint = provider.introspection else {
            throw .unsupported(operation, "the server can't", recovery: "Ask for the user's data instead.")
        }
        let body = try await post(
            endpoint, [("token", secret), ("token_type_hint", kind.rawValue)], provider, operation)
        guard let answer = TokenIntrospection(body) else {
            throw .invalidResponse(operation, "the server's answer is not what its protocol says")
        }
        return answer
    }

    /// What the server says about the user (OpenID Connect Core section 5.3).
    ///
    /// - Throws: ``CredentialError``; `invalidResponse` when it answers for another user than the ID token's.
    public func userInfo(_ token: Token) async throws(CredentialError) -> Credential.UserInfo {
        let operation = "fetch the user's data"
        let provider = try await provider(operation)
        guard let endpoint = provider.userInfo else {
            throw .unsupported(operation, "the server can't", recovery: "Use the claims of the ID token.")
        }
        let authorization = try token.authorization(operation)
        let user = try await ServerWire(transport: transport, operation: operation)
            .json(Credential.UserInfo.self, endpoint.request(.get, [.authorization: authorization]))
        guard token.subject == nil || user.subject == token.subject else {
            throw .invalidResponse(operation, "the server answered for another user")
        }
        return user
    }

    // MARK: Helpers

    private func provider(_ operation: String) async throws(CredentialError) -> ProviderMetadata {
        try await servers.provider(context.issuer, operation)
    }

    /// Posts a form as this client (RFC 6749 section 2.3.1).
    private func post(
        _ endpoint: Endpoint, _ fields: [(name: String, value: String)], _ provider: ProviderMetadata,
        _ operation: String
    ) async throws(CredentialError) -> Data {
        var request = endpoint.request(
            .post, [.contentType: "application/x-www-form-urlencoded", .accept: "application/json"])
        var form = fields
        if let secret = context.clientSecret, !provider.takesSecretInForm {
            let pair = FormEncoding.encode([(context.clientID, secret)]).replacing("=", with: ":")
            request.headerFields[.authorization] = "Basic \(Data(pair.utf8).base64EncodedString())"
        } else {
            form.append(("client_id", context.clientID))
            if let secret = context.clientSecret { form.append(("client_secret", secret)) }
        }
        return try await ServerWire(transport: transport, operation: operation).body(request, form)
    }

    /// Whether a refreshed token is still this user's (OpenID Connect Core section 12.2).
    private func check(
        _ fresh: Token, after old: Token, _ provider: ProviderMetadata, _ keys: JWKSet?, _ operation: String
    ) async throws(CredentialError) {
        guard let idToken = fresh.idToken, idToken != old.idToken else { return }
        guard old.subject == nil || idToken.subject == old.subject else {
            throw .invalidToken(operation, "is another user's")
        }
        let validator = IDTokenValidator(issuer: provider.issuer, clientID: context.clientID)
        let companions = IDTokenValidator.Companions(accessToken: fresh.accessToken)
        var known = keys
        if let parts = JWS.parse(idToken.rawValue), known?.has(parts.keyID) != true {
            // The refresh token is used up by now. Where the keys can't be read just now, the connection to the token
            // endpoint vouches for the server (OpenID Connect Core section 3.1.3.7 item 6).
            known = try? await servers.keys(provider, for: parts, operation)
        }
        if let known {
            try validator.validate(idToken, keys: known.keys, with: companions, at: clock.now)
        } else {
            try validator.checkClaims(idToken, with: companions, at: clock.now)
        }
    }
}
