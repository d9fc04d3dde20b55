internal import FoundationEssentials
internal import HTTPTypes
internal import Latchkey
internal import LatchkeyOAuth

/// A server's OAuth and OpenID Connect endpoints as calls, for one client. It stores nothing.
///
/// The endpoints come from the server's discovery document, which is read when it is first needed and kept for an hour,
/// like the server's keys.
public struct OAuth2Client: Sendable {
    /// Which server this speaks to, and as which client.
    public let context: Token.Context
    let servers: ServerDirectory
    let transport: any HTTPTransport
    let additionalOrigins: Set<String>
    let clock: any CredentialClock

    private static let refreshing = "refresh the credential"

    /// Checks an ID token, with the server's keys. They are read again for a signature that none of them made, every 30
    /// seconds at most.
    ///
    /// - Throws: ``CredentialError`` with code `invalidToken`; `transient` when the keys are so fresh that they are not
    ///   read again yet, and may just have been changed; `network` when they can't be read.
    public func validate(
        _ token: JWT, with companions: IDTokenValidator.Companions = .init()
    ) async throws(CredentialError) {
        try await validate(token, with: companions, at: clock.now, "check the ID token")
    }

    /// A new token for the old one's refresh token. What the server leaves out stays as it was, and so does the id.
    ///
    /// The old refresh token may be good for nothing afterwards, also where this throws because of what came:
    /// ``Credential/refresh()`` keeps what came all the same. Store the new token before anything else.
    ///
    /// - Throws: ``CredentialError``; `missingToken` without a refresh token, `signInAgain` when the server takes it no
    ///   more, `invalidToken` for an ID token that is not this user's.
    public func refresh(_ token: Token) async throws(CredentialError) -> Token {
        let answer = try await exchange(token)
        if let flaw = answer.flaw { throw flaw }
        try await check(answer, after: token)
        return answer.token
    }

    /// Uses the refresh token up. What comes must be kept, whatever is wrong with it.
    func exchange(_ token: Token) async throws(CredentialError) -> RefreshAnswer {
        guard let refreshToken = token.refreshToken else { throw .missing(Self.refreshing, "refresh token") }
        let provider = try await provider(Self.refreshing)
        // Before the refresh token is used up, everything else that can fail.
        if token.idToken != nil { _ = try await servers.keys(provider, Self.refreshing) }
        let form = [("grant_type", "refresh_token"), ("refresh_token", refreshToken)]
        let body: Data
        let date: Date?
        do {
            (body, date) = try await post(provider.token, form, provider, Self.refreshing)
        } catch {
            throw error.ofRefresh
        }
        return try token.refreshed(by: body, at: clock.now, serverDate: date, Self.refreshing)
    }

    /// Whether a refreshed token is still this user's and this login's (OpenID Connect Core section 12.2).
    ///
    /// - Throws: ``CredentialError``; only `invalidToken` says that it isn't.
    func check(_ answer: RefreshAnswer, after old: Token) async throws(CredentialError) {
        guard let idToken = answer.token.idToken, idToken != old.idToken else { return }
        guard old.subject == nil || idToken.subject == old.subject else {
            throw .invalidToken(Self.refreshing, "is another user's")
        }
        let nonces = [old.idToken, idToken].compactMap { $0?["nonce"] }
        guard nonces.count < 2 || nonces[0] == nonces[1] else {
            throw .invalidToken(Self.refreshing, "belongs to another login")
        }
        let companions = IDTokenValidator.Companions(accessToken: answer.token.accessToken)
        try await validate(idToken, with: companions, at: answer.receivedAt, Self.refreshing)
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
        let (body, _) = try await post(
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
        try check(endpoint, of: provider, operation)
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

    /// Whether an endpoint may get a token.
    private func check(
        _ endpoint: Endpoint, of provider: ProviderMetadata, _ operation: String
    ) throws(CredentialError) {
        do throws(MetadataFlaw) {
            try provider.metadata.check(secretsGoTo: [endpoint], additionalOrigins: additionalOrigins)
        } catch {
            throw CredentialError(
                operation: operation, code: .invalidResponse, reason: error.reason, recovery: error.recovery)
        }
    }

    /// Posts a form as this client (RFC 6749 section 2.3.1).
    private func post(
        _ endpoint: Endpoint, _ fields: [(name: String, value: String)], _ provider: ProviderMetadata,
        _ operation: String
    ) async throws(CredentialError) -> (body: Data, date: Date?) {
        try check(endpoint, of: provider, operation)
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
        return try await ServerWire(transport: transport, operation: operation).answer(request, form)
    }

    private func validate(
        _ token: JWT, with companions: IDTokenValidator.Companions, at now: Date, _ operation: String
    ) async throws(CredentialError) {
        let provider = try await provider(operation)
        let validator = IDTokenValidator(issuer: provider.issuer, clientID: context.clientID)
        try validator.checkClaims(token, with: companions, at: now)
        guard let parts = JWS.parse(token.rawValue) else { throw .invalidToken(operation, "can't be read") }
        let keys = try await servers.keys(provider, operation) { (try? parts.verify(with: $0)) != nil }
        try validator.checkSignature(token, keys: keys.keys)
    }
}
