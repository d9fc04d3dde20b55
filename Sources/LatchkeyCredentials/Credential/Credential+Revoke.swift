internal import Latchkey

extension Credential {
    /// What is to be revoked.
    public enum RevokeType: String, Hashable, Sendable, CaseIterable {
        /// The access token.
        case accessToken
        /// The refresh token.
        case refreshToken
        /// The device secret.
        case deviceSecret
        /// Everything that the token has.
        case all
    }

    /// Has the server forget the token, or a part of it.
    ///
    /// The credential is removed from the store when nothing of it can be used any more: after `all`, after
    /// `refreshToken`, and after `accessToken` where there is no refresh token. Otherwise it stays without what was
    /// revoked. What the server has forgotten is written down at once: where a later step fails, the call throws, the
    /// credential stays with the rest, and can be revoked again.
    ///
    /// - Throws: ``CredentialError``: `missingToken` for a kind that the token hasn't, `unsupported` when the server
    ///   has no place for revocation, `oauthError`, `network`; `KeystoreError`.
    public func revoke(type: RevokeType = .all) async throws {
        let operation = "revoke the credential"
        try await withOpen(operation) {
            try await store.records.exclusively(on: "credential \(id)", for: operation) {
                try await revokeAlone(type, operation)
            }
        }
    }

    private func revokeAlone(_ type: RevokeType, _ operation: String) async throws {
        var stored = try await stored(operation)
        // What a refresh brought and nobody saw is the credential's too.
        var pending = try await pendingAnswer(to: stored)
        let latest = pending?.token ?? stored.token
        let kinds = try Self.kinds(type, of: latest)
        let isRemoved = type == .all || type == .refreshToken || type == .accessToken && latest.refreshToken == nil
        let client = store.client(latest.context)
        for kind in kinds {
            try await client.revoke(kind, of: latest)
            if let shown = stored.token[kind], shown != latest[kind] { try await client.revoke(kind, of: stored.token) }
            if isRemoved, kind == kinds.last { break }
            pending = pending?.without(kind)
            stored = try await self.stored(operation)
            try await replace(stored, with: stored.token.without(kind), pending: pending)
        }
        if isRemoved { try remove() }
    }

    /// The kinds in the order in which they are revoked: what gets new tokens first.
    private static func kinds(_ type: RevokeType, of token: Token) throws(CredentialError) -> [Token.Kind] {
        let kind: Token.Kind? =
            switch type {
            case .all: nil
            case .accessToken: .accessToken
            case .refreshToken: .refreshToken
            case .deviceSecret: .deviceSecret
            }
        guard let kind else { return Token.Kind.allCases.filter { token[$0] != nil } }
        guard token[kind] != nil else { throw .missing("revoke the credential", kind.words) }
        return [kind]
    }
}
