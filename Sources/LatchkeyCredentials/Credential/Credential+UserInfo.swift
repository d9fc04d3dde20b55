public import Latchkey

extension Credential {
    /// What the server says about the user: all claims.
    public struct UserInfo: Hashable, Sendable, Codable, HasClaims {
        public let claims: [String: JSONValue]

        public init(from decoder: any Decoder) throws {
            claims = try [String: JSONValue](from: decoder)
            guard let subject = claims["sub"]?.string, !subject.isEmpty else {
                throw DecodingError.dataCorrupted(
                    .init(codingPath: decoder.codingPath, debugDescription: "there is no ‘sub’"))
            }
        }

        public func encode(to encoder: any Encoder) throws {
            try claims.encode(to: encoder)
        }
    }

    /// Asks the server about the user, with an access token that is refreshed first if it is about to end.
    ///
    /// - Throws: ``CredentialError``.
    public func userInfo() async throws -> UserInfo {
        try await withUsableToken("fetch the user's data") { token in
            try await self.store.client(token.context).userInfo(token)
        }
    }

    /// Asks the server about one of the token's secrets (RFC 7662).
    ///
    /// - Throws: ``CredentialError``; `unsupported` when the server has no place for that, `missingToken`.
    public func introspect(_ kind: Token.Kind = .accessToken) async throws -> TokenIntrospection {
        let token = try await token
        return try await store.client(token.context).introspect(kind, of: token)
    }

    /// The server's other operations, as the token's client.
    public var oauth2: OAuth2Client {
        get async throws { store.client(try await token.context) }
    }
}

extension CredentialStore {
    func client(_ context: Token.Context) -> OAuth2Client {
        OAuth2Client(
            context: context, servers: servers, transport: transport,
            additionalOrigins: configuration.additionalOrigins, clock: configuration.clock)
    }
}
