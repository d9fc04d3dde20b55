internal import FoundationEssentials
internal import HTTPTypes
internal import Latchkey
public import LatchkeyJOSE
internal import LatchkeyOAuth

/// The server of a token as calls, for the token's client. It stores nothing.
struct CredentialServer: Sendable {
    let context: Token.Context
    let providers: ProviderCache
    let transport: any HTTPTransport
    let additionalOrigins: Set<String>
    let keys: CredentialKeys

    /// The maximum difference between `iat` of an ID token and this machine's clock, in seconds.
    static let maximumIssueDifference: TimeInterval = 300

    /// Uses the token's refresh token. The response must be stored, even if it is invalid.
    func exchange(_ token: Token, at now: Date) async throws(CredentialError) -> RefreshAnswer {
        guard let refreshToken = token.refreshToken else { throw .missing("refresh token") }
        let prover = try await keys.prover(of: context)
        let client = try await client.proving(with: prover)
        if token.idToken != nil { try await readKeys() }
        let response: ServerResponse<CredentialErrorCode>
        do {
            response = try await client.refresh(refreshToken)
        } catch {
            throw error.ofRefresh
        }
        return try token.refreshed(by: response.tokens(), at: now, serverDate: response.date)
    }

    /// Redeems the code of a login, and validates the response. Revokes tokens that are not valid.
    ///
    /// - Parameter issuer: The issuer that the answer with the code names; nil for none.
    func redeem(
        _ code: String, from issuer: String?, verifier: String, redirectURI: String,
        nonce: String?, at now: Date
    ) async throws(CredentialError) -> Token {
        let prover = try await keys.prover(of: context)
        let client = try await client.proving(with: prover)
        try client.checkResponse(issuer: issuer)
        if nonce != nil { try await readKeys() }
        let response = try await client.redeem(code, verifier: verifier, redirectURI: redirectURI)
        let token: Token
        do throws(CredentialError) {
            token = try Token(
                response.tokens(), context: context, id: Token.newID(), receivedAt: now)
        } catch {
            throw CredentialError(
                code: .invalidResponse, reason: error.reason,
                recovery: "Show this text to the server's operator.")
        }
        do throws(CredentialError) {
            guard let idToken = token.idToken else {
                guard nonce == nil else { throw CredentialError.invalidToken("is missing") }
                return token
            }
            try await validate(
                idToken,
                .init(
                    nonce: nonce, accessToken: token.accessToken, code: code,
                    maximumIssueDifference: Self.maximumIssueDifference),
                at: response.date ?? now)
            return token
        } catch {
            let kind = token.refreshToken == nil ? Token.Kind.accessToken : .refreshToken
            try? await revoke(kind, of: token)
            throw error
        }
    }

    /// Reads what validates an ID token, before an exchange that may bring one: a failure after the
    /// exchange could cost the refresh token.
    func readKeys() async throws(CredentialError) {
        let client = try await client
        try client.checkIDTokenAlgorithms()
        _ = try await providers.keys(of: client)
    }

    /// Checks that a refreshed token belongs to the same user and login (OpenID Connect Core
    /// section 12.2).
    ///
    /// - Throws: ``CredentialError`` with code `invalidToken` if it does not; other codes if that
    ///   is not known.
    func check(_ answer: RefreshAnswer, after old: Token) async throws(CredentialError) {
        guard let idToken = answer.token.idToken, idToken != old.idToken else { return }
        // A token without a subject is refused by the validation, with that cause.
        guard [nil, idToken.subject].contains(old.subject) || idToken.subject == nil else {
            throw .invalidToken("belongs to another user")
        }
        let nonces = [old.idToken, idToken].compactMap { $0?["nonce"] }
        guard nonces.count < 2 || nonces[0] == nonces[1] else {
            throw .invalidToken("belongs to another login")
        }
        try await validate(
            idToken,
            .init(
                accessToken: answer.token.accessToken,
                maximumIssueDifference: Self.maximumIssueDifference),
            at: answer.receivedAt)
    }

    /// Validates an ID token with the server's keys. Unless one of them made the signature, they
    /// are read again, at most every 30 seconds.
    ///
    /// - Throws: ``CredentialError``: `invalidToken`; `unsupported` for an algorithm that is not
    ///   supported; `network` if the keys cannot be read.
    func validate(
        _ token: JWT, _ expected: IDTokenValidator.Expectations, at now: Date
    ) async throws(CredentialError) {
        let client = try await client
        try client.claims(of: token.rawValue, expected, now: now)
        try await client.verifySignature(of: token.rawValue, with: providers)
    }

    /// Revokes one of the token's secrets (RFC 7009).
    ///
    /// - Throws: ``CredentialError``; `unsupported` if the server has no revocation endpoint.
    func revoke(_ kind: Token.Kind, of token: Token) async throws(CredentialError) {
        guard let secret = token.token(of: kind) else { throw .missing(kind.words) }
        try await client.revoke(secret, hint: kind.name)
    }

    /// Asks the server for the state of one of the token's secrets (RFC 7662).
    ///
    /// - Throws: ``CredentialError``; `unsupported` if the server has no introspection endpoint.
    func introspect(_ kind: Token.Kind, of token: Token) async throws(CredentialError)
        -> TokenIntrospection
    {
        guard let secret = token.token(of: kind) else { throw .missing(kind.words) }
        return try await client.introspect(
            TokenIntrospection.Received.self, secret, hint: kind.name
        ).introspection
    }

    /// The server's claims about the user (OpenID Connect Core section 5.3).
    ///
    /// - Throws: ``CredentialError``; `invalidResponse` if they are about another user than the ID
    ///   token's.
    func userInfo(_ token: Token) async throws(CredentialError) -> Credential.UserInfo {
        let prover = token.needsProof ? try await keys.prover(of: context) : nil
        let client = try await client.proving(with: prover)
        _ = try client.endpoint(.userInfo)
        let user = try await client.userInfo(
            Credential.UserInfo.Received.self, authorization: token.authorization
        ).user
        guard token.subject == nil || user.subject == token.subject else {
            throw .invalidResponse(
                "the server's user info is of another user: its ‘sub’ is not that of the ID token",
                recovery: "Show this text to the server's operator.")
        }
        return user
    }

    /// What an app's own login needs of the server's metadata.
    var configuration: OpenIdConfiguration {
        get async throws(CredentialError) {
            let client = try await client
            let tokenEndpoint = try client.endpoint(.token)
            if client.metadata[.authorization] != nil { _ = try client.endpoint(.authorization) }
            guard let configuration = OpenIdConfiguration(client.metadata, tokenEndpoint) else {
                throw CredentialError(.malformed)
            }
            return configuration
        }
    }

    var keySet: JWKS {
        get async throws(CredentialError) { try await providers.keys(of: client) }
    }

    /// Checks that the server answers at the context's address, and has an endpoint. Reads its
    /// metadata now.
    func check(_ endpoint: ProviderMetadata.EndpointName) async throws(CredentialError) {
        try await providers.readMetadata(
            of: context.issuer, over: ServerConnection<CredentialErrorCode>(transport: transport))
        _ = try await client.endpoint(endpoint)
    }

    /// The client without the key of its tokens: revoking a token needs no proof.
    private var client: OAuthClient<CredentialErrorCode> {
        get async throws(CredentialError) {
            let connection = ServerConnection<CredentialErrorCode>(transport: transport)
            return OAuthClient(
                try await providers.metadata(of: context.issuer, over: connection),
                clientID: context.clientID,
                clientSecret: context.clientSecret, additionalOrigins: additionalOrigins,
                fields: [.accept: "application/json"], over: connection)
        }
    }
}

/// The state of a token on the server (RFC 7662 section 2.2).
public struct TokenIntrospection: Hashable, Sendable, HasClaims {
    /// Whether the token can be used now.
    public let isActive: Bool
    /// All members of the response, including `active`.
    public let claims: [String: JSONValue]

    /// A server's answer.
    struct Received: Decodable {
        let introspection: TokenIntrospection

        private enum CodingKeys: CodingKey { case active }

        init(from decoder: any Decoder) throws {
            introspection = TokenIntrospection(
                isActive: try decoder.container(keyedBy: CodingKeys.self)
                    .decode(Bool.self, forKey: .active),
                claims: try [String: JSONValue](from: decoder))
        }
    }
}
