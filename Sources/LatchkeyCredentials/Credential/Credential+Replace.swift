internal import Latchkey

extension Credential {
    /// Puts the token of a new login in the place of this one, for example after a refresh told with `signInAgain` that
    /// the server is through with it. The credential's id, tags and policy stay, and so does its being the default.
    ///
    /// The old token is not revoked: see ``revoke(type:)``. Asks the person where the credential's policy says so.
    ///
    /// - Parameter token: Its own id is not looked at.
    /// - Throws: ``CredentialError``: `refused` for a token of another user, by what both ID tokens say; `notFound` when
    ///   the credential was removed. `KeystoreError`.
    public func replace(with token: Token) async throws {
        let operation = "replace the token"
        try await withOpen(operation) {
            try await store.records.exclusively(on: "credential \(id)", for: operation) {
                let stored = try await stored(operation)
                guard stored.token.isOfSameUser(as: token) else {
                    throw CredentialError(
                        operation: operation, code: .refused, reason: "the new token is another user's",
                        recovery: "Store it as a credential of its own.")
                }
                try await replace(stored, with: token.named(id))
            }
        }
        store.tell(.refreshed(self))
    }
}

extension Token {
    /// Whether nothing says that the tokens belong to two users.
    fileprivate func isOfSameUser(as other: Token) -> Bool {
        guard let subject, let otherSubject = other.subject else { return true }
        return subject == otherSubject && issuer == other.issuer
    }

    fileprivate func named(_ id: String) -> Token {
        Token(id: id, issuedAt: issuedAt, context: context, idToken: idToken, checked: response)
    }
}
