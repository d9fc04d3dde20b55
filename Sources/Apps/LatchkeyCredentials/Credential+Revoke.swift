internal import Latchkey

extension Credential {
    /// The secrets to revoke.
    public enum RevokeType: Hashable, Sendable, CaseIterable {
        /// The access token.
        case accessToken
        /// The refresh token.
        case refreshToken
        /// The device secret.
        case deviceSecret
        /// All secrets of the token.
        case all
    }

    /// Revokes the token, or one of its secrets, on the server.
    ///
    /// The credential is removed from the store if it cannot be used any more: after `all`, after
    /// `refreshToken`, and after `accessToken` without a refresh token. Otherwise only the revoked
    /// secret is removed. Each revocation is stored at once. If a later step fails, the call
    /// throws, and the credential keeps the other secrets and can be revoked again.
    ///
    /// - Parameters:
    ///   - type: The secrets to revoke.
    ///   - reason: The reason in the prompt: see ``token(reason:)``.
    /// - Throws: ``CredentialError``: `missingToken` for a secret that the token does not have,
    ///   `unsupported` if the server has no revocation endpoint, `oauthError`, `network`;
    ///   `KeystoreError`. ``remove()`` needs no server.
    public func revoke(type: RevokeType = .all, reason: String? = nil) async throws {
        try await performAtServer(.revocation, "revoke the credential", reason) {
            try await store.records.exclusively(on: "credential \(id)") {
                try await revokeAlone(type)
            }
        }
    }

    private func revokeAlone(_ type: RevokeType) async throws {
        var stored = try await stored
        // A response that is not in use yet belongs to the credential too.
        var pending = try await pendingAnswer(to: stored)
        let latest = pending?.token ?? stored.token
        let kinds = try Self.kinds(type, of: latest)
        let isRemoved =
            type == .all || type == .refreshToken
            || type == .accessToken && latest.refreshToken == nil
        let server = store.server(of: latest.context)
        for kind in kinds {
            try await server.revoke(kind, of: latest)
            if let shown = stored.token.token(of: kind), shown != latest.token(of: kind) {
                try await server.revoke(kind, of: stored.token)
            }
            if isRemoved, kind == kinds.last { break }
            pending = pending?.without(kind)
            stored = try await self.stored
            try await replace(stored, with: stored.token.without(kind), pending: pending)
        }
        if isRemoved { try remove() }
    }

    /// The kinds in the order of revocation: secrets that get new tokens first.
    static func kinds(_ type: RevokeType, of token: Token) throws(CredentialError) -> [Token.Kind] {
        let kind: Token.Kind? =
            switch type {
            case .all: nil
            case .accessToken: .accessToken
            case .refreshToken: .refreshToken
            case .deviceSecret: .deviceSecret
            }
        guard let kind else { return Token.Kind.allCases.filter { token.token(of: $0) != nil } }
        guard token.token(of: kind) != nil else { throw .missing(kind.words) }
        return [kind]
    }
}

extension Credential {
    /// Replaces the token with the token of a new login, for example after a refresh failed with
    /// `signInAgain`. The credential's id, tags and policy stay, and it stays the default.
    ///
    /// The old token is not revoked: see ``revoke(type:reason:)``. Prompts if the credential has a policy.
    ///
    /// - Parameters:
    ///   - token: The new token. Its id is ignored.
    ///   - reason: The reason in the prompt: see ``token(reason:)``.
    /// - Throws: ``CredentialError``: `refused` if the ID tokens name different users, `notFound`
    ///   if the credential was removed. `KeystoreError`.
    public func replace(with token: Token, reason: String? = nil) async throws {
        do { try token.checkIssuer() } catch { throw error.during("replace the token") }
        try await perform("replace the token", reason) {
            try await store.records.exclusively(on: "credential \(id)") {
                let stored = try await stored
                guard stored.token.isOfSameUser(as: token) else {
                    throw CredentialError(
                        code: .refused, reason: "the new token belongs to another user",
                        recovery: "Store it as a separate credential.")
                }
                try await replace(stored, with: token.named(id))
            }
        }
        store.publish(.refreshed(self))
    }
}

extension Token {
    /// Whether the ID tokens do not name different users.
    fileprivate func isOfSameUser(as other: Token) -> Bool {
        guard let subject, let otherSubject = other.subject else { return true }
        return subject == otherSubject && issuer == other.issuer
    }

    fileprivate func named(_ id: String) -> Token {
        Token(id: id, issuedAt: issuedAt, context: context, idToken: idToken, checked: response)
    }
}
