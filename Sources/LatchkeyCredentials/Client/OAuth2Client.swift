public import FoundationEssentials
internal import HTTPTypes
public import Latchkey

/// One client of one authorization server: discovery, and the requests that tokens need.
///
/// The server's discovery document is read once, and its keys when an ID token is signed by one that is not known yet.
public actor OAuth2Client {
    /// How often the server's keys are asked for at most, however many tokens name a key that it has not.
    private static let keyInterval: TimeInterval = 60

    /// The server and the client.
    public nonisolated let context: Token.Context
    private let authentication: ClientAuthentication
    private let transport: any HTTPTransport
    private let now: @Sendable () -> Date
    private var document: ProviderMetadata?
    private var keys: (set: JWKSet, readAt: Date)?

    /// - Parameters:
    ///   - transport: How the server is reached.
    ///   - now: This machine's clock.
    public init(
        _ context: Token.Context, authentication: ClientAuthentication = .none, transport: any HTTPTransport,
        now: @escaping @Sendable () -> Date = { Date() }
    ) {
        self.context = context
        self.authentication = authentication
        self.transport = transport
        self.now = now
    }

    // MARK: For everybody

    /// Checks that the token's ID token is the server's, for this client, for this sign-in and in time, signed with RS256
    /// or ES256 by one of the server's keys, and that it belongs to the access token and device secret beside it.
    ///
    /// - Parameters:
    ///   - nonce: What the authorization request had, or nil.
    ///   - maxAge: The longest time since the person was authenticated, in seconds; nil for any.
    /// - Throws: ``CredentialError``; `invalidToken` with the flaw. `KeystoreError` when the server can't be reached.
    public func validate(_ token: Token, nonce: String? = nil, maxAge: TimeInterval? = nil) async throws {
        let issuer = try await metadata("validate the ID token").issuer
        try await validate(
            token,
            IDTokenValidator(issuer: issuer, clientID: context.clientID, nonce: nonce, maxAge: maxAge),
            "validate the ID token")
    }

    /// What the server says about the user of an access token.
    public func userInfo(accessToken: String) async throws -> UserInfo {
        let operation = "fetch the user's data"
        guard let endpoint = try await metadata(operation).userInfo else {
            throw CredentialError.noEndpoint(operation, "userinfo")
        }
        let request = endpoint.request(.get, [.authorization: "Bearer \(accessToken)", .accept: "application/json"])
        return try await success(request, [], operation).json(UserInfo.self, operation)
    }

    /// Tells the server that a token is not needed any more (RFC 7009). A token that the server does not know is no
    /// error.
    public func revoke(_ token: String, kind: Token.Kind) async throws {
        let operation = "revoke the token"
        guard let endpoint = try await metadata(operation).revocation else {
            throw CredentialError.noEndpoint(operation, "revocation")
        }
        _ = try await post(endpoint, [("token", token), ("token_type_hint", kind.rawValue)], operation)
    }

    /// Asks the server about a token (RFC 7662).
    public func introspect(_ token: String, kind: Token.Kind) async throws -> TokenInfo {
        let operation = "ask about the token"
        guard let endpoint = try await metadata(operation).introspection else {
            throw CredentialError.noEndpoint(operation, "introspection")
        }
        return try await post(endpoint, [("token", token), ("token_type_hint", kind.rawValue)], operation)
            .json(TokenInfo.self, operation)
    }

    // MARK: For credentials

    /// The token that the server gives for `token`'s refresh token. An ID token in the answer is checked.
    ///
    /// - Throws: ``CredentialError``; `missingToken` without a refresh token, before anything is sent; `invalidGrant`
    ///   when the server does not accept it any more.
    func refresh(_ token: Token, _ operation: String) async throws -> Token {
        guard let refreshToken = token.refreshToken else { throw CredentialError.missing(.refreshToken, operation) }
        let metadata = try await metadata(operation)
        let response = try await post(
            metadata.token, [("grant_type", "refresh_token"), ("refresh_token", refreshToken)], operation
        ).json([String: JSONValue].self, operation)
        let refreshed = try token.refreshed(with: response, at: now())
        if response["id_token"]?.string != nil {
            let validator = IDTokenValidator(
                issuer: metadata.issuer, clientID: context.clientID, checksNonce: false, subject: token.subject)
            try await validate(refreshed, validator, operation)
        }
        return refreshed
    }

    private func validate(_ token: Token, _ validator: IDTokenValidator, _ operation: String) async throws {
        let keys = try await keys(for: token.idToken, operation)
        do throws(IDTokenFlaw) {
            try validator.validate(token, keys: keys, now: now())
        } catch {
            throw CredentialError.invalidToken(operation, error)
        }
    }

    // MARK: What the server publishes

    private func metadata(_ operation: String) async throws -> ProviderMetadata {
        if let document { return document }
        guard let endpoint = Endpoint(context.issuer), !endpoint.path.contains("?") else {
            throw CredentialError.invalidInput(
                operation, "‘\(context.issuer)’ is neither an https address nor on this machine")
        }
        let request = endpoint.appending(ProviderMetadata.path).request(.get, [.accept: "application/json"])
        let document = try await success(request, [], operation).json(ProviderMetadata.self, operation)
        let address = endpoint.path == "/" ? endpoint.origin : endpoint.text
        // OpenID Connect Discovery section 4.3; a trailing slash is what servers differ in.
        guard document.issuer == address || document.issuer == address + "/" || document.issuer == context.issuer else {
            throw CredentialError.invalidResponse(
                operation, "the server calls itself ‘\(document.issuer)’ and not ‘\(address)’")
        }
        self.document = document
        return document
    }

    /// The server's keys, read again for a key that is not among them: servers change theirs.
    private func keys(for jwt: JWT?, _ operation: String) async throws -> JWKSet {
        let keyID = jwt.flatMap { JWS.parse($0.rawValue)?.keyID }
        if let keys {
            let isKnown = keyID == nil || keys.set.keys.contains { $0.kid == keyID }
            guard !isKnown, now().timeIntervalSince(keys.readAt) >= Self.keyInterval else { return keys.set }
        }
        guard let endpoint = try await metadata(operation).keys else {
            throw CredentialError.noEndpoint(operation, "keys")
        }
        let set = try await success(endpoint.request(.get), [], operation).json(JWKSet.self, operation)
        keys = (set, now())
        return set
    }

    // MARK: Requests

    private func post(
        _ endpoint: Endpoint, _ fields: [(name: String, value: String)], _ operation: String
    ) async throws -> Answer {
        var request = endpoint.request(
            .post, [.contentType: "application/x-www-form-urlencoded", .accept: "application/json"])
        var fields = fields
        switch authentication {
        case .none: fields.append(("client_id", context.clientID))
        case .clientSecret(let secret):
            // RFC 6749 section 2.3.1: both are form-encoded first.
            let pair = [context.clientID, secret.text].map { FormEncoding.encode([("", $0)]).dropFirst() }
            request.headerFields[.authorization] =
                "Basic \(Data(pair.joined(separator: ":").utf8).base64EncodedString())"
        }
        return try await success(request, Array(FormEncoding.encode(fields).utf8), operation)
    }

    /// - Throws: ``CredentialError`` for every answer outside of 200 to 299.
    private func success(_ request: HTTPRequest, _ body: [UInt8], _ operation: String) async throws -> Answer {
        let (response, bytes) = try await transport.send(request, body: body)
        let answer = Answer(status: response.status.code, body: Data(bytes))
        guard (200..<300).contains(answer.status) else { throw answer.failure(operation) }
        return answer
    }
}
