internal import Latchkey

/// The OAuth 2.0 client of a credential, for operations with other tokens of the same server and
/// client, for example a token that the app has received and not stored.
///
/// It does not open the credential's token, so it never prompts. The operations do not change the
/// store. For the credential's own token, see ``Credential/revoke(type:)``.
public struct OAuth2Client: Sendable {
    fileprivate let credential: Credential

    /// The address of the server that issued the credential's token.
    ///
    /// - Throws: ``CredentialError`` with code `notFound` if the credential was removed.
    public var issuer: String {
        get throws { try credential.metadata.server }
    }

    /// The OAuth client id of the credential's token.
    ///
    /// - Throws: ``CredentialError`` with code `notFound` if the credential was removed.
    public var clientID: String {
        get throws { try credential.metadata.clientID }
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
                    recovery: "Use the ‘oauth2’ of a credential of that server and client.")
            }
            return try await body(credential.store.server(of: token.context))
        } catch {
            throw error.during(operation)
        }
    }
}

extension Credential {
    /// The OAuth 2.0 client of the credential. Does not open the token or prompt.
    public var oauth2: OAuth2Client { OAuth2Client(credential: self) }
}
