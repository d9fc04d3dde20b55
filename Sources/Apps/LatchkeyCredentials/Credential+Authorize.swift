public import FoundationEssentials
public import HTTPTypes
internal import Latchkey
public import LatchkeyJOSE
internal import LatchkeyOAuth

extension Credential {
    /// Adds the access token to a request. A token that is about to expire is refreshed first. If
    /// that fails, a token that has not expired is used.
    ///
    /// A token of the type `DPoP` is bound to a key of this machine. The request then also gets the
    /// field `DPoP`, a proof for this request only, which needs a signature of the hardware. A server
    /// that answers 401 and a `DPoP-Nonce` requires its nonce: call this again with that nonce, and
    /// repeat the request once.
    ///
    /// - Parameters:
    ///   - nonce: The latest `DPoP-Nonce` of the server, if it sent one.
    ///   - reason: The reason in the prompt: see ``token(reason:)``.
    /// - Throws: ``CredentialError``; `invalidInput` for a request that goes neither over `https` nor
    ///   to this machine, `signInAgain` if the key of the token is lost.
    public func authorize(
        _ request: inout HTTPRequest, nonce: String? = nil, reason: String? = nil
    ) async throws {
        do {
            let resource = try ResourceRequest<CredentialErrorCode>(request)
            request = try await withUsableToken("authorize the request", reason) { token in
                try await resource.authorized(
                    by: token.authorization,
                    with: token.needsProof ? self.store.keys.prover(of: token.context) : nil,
                    nonce: nonce)
            }
        } catch {
            throw error.during("authorize the request")
        }
    }

    /// Performs an operation with a valid token. Prompts at most once.
    private func withUsableToken<R>(
        _ operation: String, _ reason: String?, _ body: (Token) async throws -> R
    ) async throws -> R {
        try await perform(operation, reason) {
            do {
                try await refreshIfNeeded()
            } catch {
                let token = try await stored.token
                guard !token.isExpired(at: store.configuration.clock.now) else { throw error }
                return try await body(token)
            }
            return try await body(stored.token)
        }
    }
}

extension Credential {
    /// The server's claims about the user.
    public struct UserInfo: Hashable, Sendable, HasClaims {
        public let claims: [String: JSONValue]

        /// A server's answer, which must have a user ID.
        struct Received: Decodable {
            let user: UserInfo

            private enum CodingKeys: CodingKey { case sub }

            init(from decoder: any Decoder) throws {
                let members = try decoder.container(keyedBy: CodingKeys.self)
                guard try !members.decode(String.self, forKey: .sub).isEmpty else {
                    throw DecodingError.dataCorruptedError(
                        forKey: .sub, in: members, debugDescription: "empty")
                }
                user = UserInfo(claims: try [String: JSONValue](from: decoder))
            }
        }
    }

    /// Requests the user's claims from the server. An access token that is about to expire is
    /// refreshed first.
    ///
    /// - Parameter reason: The reason in the prompt: see ``token(reason:)``.
    /// - Throws: ``CredentialError``.
    public func userInfo(reason: String? = nil) async throws -> UserInfo {
        try await performAtServer(.userInfo, "fetch the user's data", reason) {
            try await withUsableToken("fetch the user's data", reason) { token in
                try await self.store.server(of: token.context).userInfo(token)
            }
        }
    }

    /// Requests the state of one of the token's secrets (RFC 7662).
    ///
    /// - Parameters:
    ///   - kind: The secret.
    ///   - reason: The reason in the prompt: see ``token(reason:)``.
    /// - Throws: ``CredentialError``; `unsupported` if the server has no introspection endpoint,
    ///   `missingToken`.
    public func introspect(
        _ kind: Token.Kind = .accessToken, reason: String? = nil
    ) async throws -> TokenIntrospection {
        try await performAtServer(.introspection, "introspect the \(kind.words)", reason) {
            let token = try await stored.token
            return try await store.server(of: token.context).introspect(kind, of: token)
        }
    }
}

extension CredentialStore {
    /// Validates the ID token of a login that the app made itself, with the server's keys (OpenID
    /// Connect Core section 3.1.3.7). Call this before the token is stored: later refreshes are
    /// compared with the stored ID token.
    ///
    /// - Parameters:
    ///   - token: A token with an ID token. Hashes of its access token and device secret are
    ///     checked if the ID token has them.
    ///   - nonce: The nonce of the authorization request, if it had one.
    ///   - code: The authorization code, if the ID token may have its hash (`c_hash`).
    ///   - maximumLoginAge: The maximum time since the user logged in (`auth_time`), in seconds;
    ///     nil for any time.
    /// - Throws: ``CredentialError``: `missingToken` without an ID token; `invalidToken`;
    ///   `unsupported` if the server signs with an algorithm that is not supported; `network` if
    ///   the keys cannot be read.
    public func validate(
        _ token: Token, nonce: String? = nil, code: String? = nil,
        maximumLoginAge: TimeInterval? = nil
    ) async throws {
        do {
            guard let idToken = token.idToken else { throw CredentialError.missing("ID token") }
            try await server(of: token.context).validate(
                idToken,
                .init(
                    nonce: nonce, accessToken: token.accessToken, code: code,
                    deviceSecret: token.deviceSecret,
                    maximumLoginAge: maximumLoginAge,
                    maximumIssueDifference: CredentialServer.maximumIssueDifference),
                at: configuration.clock.now)
        } catch {
            throw error.during("validate the ID token")
        }
    }

    func server(of context: Token.Context) -> CredentialServer {
        CredentialServer(
            context: context, providers: providers, transport: transport,
            additionalOrigins: configuration.additionalOrigins, keys: keys)
    }
}
