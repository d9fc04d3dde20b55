public import Latchkey

extension CredentialStore {
    /// Stores a token that only this device can open. The first one stored while there is no other becomes the default.
    ///
    /// - Parameters:
    ///   - token: Its id must be new here.
    ///   - tags: At most 64; names of 1 to 64 bytes, values of at most 1024, without control characters.
    /// - Throws: ``CredentialError`` with code `duplicate`; `KeystoreError` with code `wrongState` before ``open()``.
    @discardableResult
    public func store(_ token: Token, tags: [String: String] = [:]) throws -> Credential {
        try insert(token, tags, .none)
    }

    /// Stores a token that opens only when the hardware is satisfied as `security` says. The first one of a policy with
    /// a PIN asks for a new PIN; each later one of that policy asks for that PIN.
    ///
    /// - Throws: ``CredentialError`` with code `duplicate`; `KeystoreError`, `unsupported` when the hardware can't
    ///   enforce the policy.
    @discardableResult
    public func store(
        _ token: Token, tags: [String: String] = [:], security: AccessPolicy
    ) async throws -> Credential {
        try CredentialRows.check(tags: tags)
        guard try !rows.exists(token.id) else { throw CredentialError.duplicate(token.id) }
        return try await gates.withOpen(
            .credentials(security), for: prompt("store a token of \(token.context.issuer)"), authorizedBy: presence
        ) {
            try await disk.run { try self.insert(token, tags, security) }
        }
    }

    /// The stored credential of the token's id; the token is stored if there is none.
    public func credential(for token: Token) throws -> Credential {
        if let standing = try credential(id: token.id) { return standing }
        do {
            return try store(token)
        } catch let error as CredentialError where error.code == .duplicate {
            return credential(stored: token.id)
        }
    }

    private func insert(_ token: Token, _ tags: [String: String], _ security: AccessPolicy) throws -> Credential {
        try CredentialRows.check(tags: tags)
        let metadata = CredentialRows.metadata(
            of: token, tags: tags, security: security, copying: configuration.copiedClaims)
        var changes = try CredentialRows.insertion(token, metadata: metadata, security: security)
        // Where nothing else is stored, whatever stands as the default names nothing.
        let becomesDefault = try !records.hasAny(CredentialRows.kind)
        if becomesDefault {
            changes.append(CredentialRows.put(defaultID: token.id, ifGeneration: rows.defaultGeneration))
        }
        do {
            try records.applyNow(changes)
        } catch {
            guard error.code == .conflict else { throw error }
            if try rows.exists(token.id) { throw CredentialError.duplicate(token.id) }
            // Another program stored the first one meanwhile; then this is not the first.
            guard becomesDefault, try records.hasAny(CredentialRows.kind) else { throw error }
            return try insert(token, tags, security)
        }
        let credential = credential(stored: token.id)
        tell(.created(credential))
        if becomesDefault { tell(.defaultChanged(credential)) }
        return credential
    }
}
