public import HTTPTypes
internal import Latchkey

extension Credential {
    /// What ``revoke(type:)`` takes back.
    public enum RevokeType: String, Hashable, Sendable, CaseIterable {
        case accessToken = "access-token"
        case refreshToken = "refresh-token"
        case deviceSecret = "device-secret"
        /// All that the token has.
        case all

        var kind: Token.Kind? {
            switch self {
            case .accessToken: .accessToken
            case .refreshToken: .refreshToken
            case .deviceSecret: .deviceSecret
            case .all: nil
            }
        }
    }

    /// Puts the access token into a request, refreshed if it is about to end. A token that is still good is used although
    /// it could not be refreshed.
    ///
    /// - Throws: `KeystoreError` with code `refused` for an address that a token must not be sent to: neither `https` nor
    ///   on this machine. What ``refreshIfNeeded(graceInterval:)`` throws, when the token is no longer good.
    public func authorize(_ request: inout HTTPRequest) async throws {
        let address = "\(request.scheme ?? "")://\(request.authority ?? "")\(request.path ?? "")"
        request.headerFields[.authorization] = try await authorization(for: address)
    }

    /// The value of the `Authorization` header for a request to this URL (RFC 6750 section 2.1). For
    /// ``authorize(_:)``, and for other ways to make requests.
    ///
    /// - Throws: As ``authorize(_:)``.
    public func authorization(for url: String) async throws -> String {
        guard Endpoint(url) != nil else {
            throw KeystoreError(
                operation: "authorize the request", code: .refused,
                reason: "its address is neither https nor on this machine",
                recovery: "Send tokens to https addresses only.")
        }
        let token = try await usableToken()
        return "\(token.tokenType) \(token.accessToken)"
    }

    /// What the server says about the user, for whom the ID token is if there is one.
    public func userInfo() async throws -> UserInfo {
        let token = try await usableToken()
        let info = try await oauth2.userInfo(accessToken: token.accessToken)
        guard token.subject ?? info.subject == info.subject else {
            throw CredentialError.invalidResponse("fetch the user's data", "the server answered for somebody else")
        }
        return info
    }

    /// Asks the server about one of the tokens.
    public func introspect(_ kind: Token.Kind = .accessToken) async throws -> TokenInfo {
        guard let text = try await unlock()[kind] else { throw CredentialError.missing(kind, "ask about the token") }
        return try await oauth2.introspect(text, kind: kind)
    }

    /// Has the server take tokens back. When nothing of use is left the credential is removed: after `all`, after the
    /// refresh token, and after the access token when there is no refresh token.
    ///
    /// Where one of several fails the credential stays, and revoking again is safe: a server takes what it has revoked
    /// already for revoked.
    ///
    /// - Throws: ``CredentialError``; `missingToken` when there is no token of that type, and what the server says:
    ///   nothing is then removed.
    public func revoke(type: RevokeType = .all) async throws {
        let token = try await unlock()
        let client = try oauth2
        if let kind = type.kind {
            guard let text = token[kind] else { throw CredentialError.missing(kind, "revoke the token") }
            try await client.revoke(text, kind: kind)
        } else {
            // The refresh token first: while it is good, the others can come back.
            for kind in [Token.Kind.refreshToken, .deviceSecret, .accessToken] {
                if let text = token[kind] { try await client.revoke(text, kind: kind) }
            }
        }
        guard type == .all || type == .refreshToken || type == .accessToken && token.refreshToken == nil else { return }
        try await remove()
    }

    /// The token, refreshed if it is about to end; the old one when that fails and it is still good.
    private func usableToken() async throws -> Token {
        do {
            return try await refreshIfNeeded()
        } catch {
            guard let token = try? token, !token.expires(within: 0, of: store.configuration.now()) else { throw error }
            return token
        }
    }
}
