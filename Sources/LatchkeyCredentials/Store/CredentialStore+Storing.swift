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
        try insert(token, tags)
    }

    /// Stores a token that opens only when the hardware is satisfied as `security` says. The first one with a PIN asks
    /// for a new PIN; each later one asks for that PIN.
    ///
    /// - Throws: ``CredentialError`` with code `duplicate`; `KeystoreError`, `unsupported` when the hardware can't
    ///   enforce the policy.
    @discardableResult
    public func store(
        _ token: Token, tags: [String: String] = [:], security: AccessPolicy
    ) async throws -> Credential {
        try CredentialRows.check(tags: tags)
        guard try !rows.exists(token.id) else { throw CredentialError.duplicate(token.id) }
        let prompt = prompt("store a token of \(token.context.issuer)")
        guard security != .none else {
            return try await gates.withOpen(.device, for: prompt, authorizedBy: presence) {
                try await disk.run { try self.insert(token, tags) }
            }
        }
        let protection = CredentialRows.classes(token.id).newClass(security)
        return try await gates.withNew(protection, for: prompt, authorizedBy: presence) { prepared in
            try await disk.run { try self.insert(token, tags, in: prepared) }
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

    /// Whether the hardware can revoke the key of a credential: a copy of the store then opens nothing after its removal.
    /// Needs no hardware.
    ///
    /// - Returns: nil for a credential that opens without a prompt, and where there is none of that id.
    /// - Throws: `KeystoreError` when the store can't be read.
    public func isStoredRevocably(id: String) async throws -> Bool? {
        guard let protection = try rows.protection(id), protection.policy != .none else { return nil }
        return try await records.areRevocable([CredentialRows.classes(id)])
    }

    /// - Parameter prepared: The token's own class, or nil for the device's.
    private func insert(
        _ token: Token, _ tags: [String: String], in prepared: PreparedClass? = nil
    ) throws -> Credential {
        try CredentialRows.check(tags: tags)
        let protection = prepared?.protection ?? .device
        let metadata = CredentialRows.metadata(
            of: token, tags: tags, security: protection.policy, copying: configuration.copiedClaims)
        let insertion = try CredentialRows.insertion(token, metadata: metadata, in: protection)
        let becomesDefault = try changingDefault {
            // Where nothing else is stored, whatever stands as the default names nothing.
            let becomesDefault = try !records.hasAny(CredentialRows.kind)
            var changes = insertion
            if becomesDefault {
                changes.append(CredentialRows.put(defaultID: token.id, ifGeneration: rows.defaultGeneration))
            }
            do {
                try records.applyNow(changes, classes: prepared.map { [.add($0)] } ?? [])
            } catch let error as KeystoreError where error.code == .conflict {
                throw try rows.exists(token.id) ? CredentialError.duplicate(token.id) : error
            }
            return becomesDefault
        }
        let credential = credential(stored: token.id)
        tell(.created(credential))
        if becomesDefault { tell(.defaultChanged(credential)) }
        return credential
    }

    /// Runs a change that may change the default, and runs it again when others changed it meanwhile: they store the first
    /// credential, or remove the last.
    func changingDefault<R>(_ change: () throws -> R) throws -> R {
        for _ in 1..<100 {
            do {
                return try change()
            } catch let error as KeystoreError where error.code == .conflict {
                continue
            }
        }
        return try change()
    }
}
