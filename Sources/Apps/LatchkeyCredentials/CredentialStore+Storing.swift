package import Latchkey
internal import LatchkeyOAuth

extension CredentialStore {
    /// See ``Credential/store(token:tags:)``.
    @discardableResult
    package func store(_ token: Token, tags: [String: String] = [:]) throws -> Credential {
        do { return try insert(token, tags) } catch { throw error.during("store the token") }
    }

    /// See ``Credential/store(token:tags:security:reason:)``.
    @discardableResult
    package func store(
        _ token: Token, tags: [String: String] = [:], security: AccessPolicy,
        reason: String? = nil
    ) async throws -> Credential {
        do {
            return try await store(token, tags, under: security, reason)
        } catch {
            throw error.during("store the token")
        }
    }

    /// See ``Credential/store(token:tags:security:reason:)-(_,_,AccessPolicy?,_)``.
    @discardableResult @_disfavoredOverload
    package func store(
        _ token: Token, tags: [String: String] = [:], security: AccessPolicy?,
        reason: String? = nil
    ) async throws -> Credential {
        let policy =
            if let security { security } else {
                await records.keystore.preferredPolicy(for: .sealing, through: presence)
            }
        return try await store(token, tags: tags, security: policy, reason: reason)
    }

    private func store(
        _ token: Token, _ tags: [String: String], under security: AccessPolicy, _ reason: String?
    ) async throws -> Credential {
        try CredentialRows.check(tags: tags)
        try token.checkIssuer()
        guard try !rows.exists(token.id) else { throw CredentialError.duplicate(token.id) }
        let prompt = prompt(reason ?? "store a token of \(token.context.issuer)")
        guard security != .none else {
            return try await unlocked.withOpen(.device, for: prompt, authorizedBy: presence) {
                try await disk.run { try self.insert(token, tags) }
            }
        }
        let protection = CredentialRows.classes(token.id).newClass(security)
        return try await unlocked.withNew(protection, for: prompt, authorizedBy: presence) {
            prepared in
            try await disk.run { try self.insert(token, tags, in: prepared) }
        }
    }

    /// See ``Credential/with(token:)``.
    package func credential(for token: Token) throws -> Credential {
        if let existing = try credential(id: token.id) { return existing }
        do {
            return try store(token)
        } catch let error as CredentialError where error.code == .duplicate {
            return credential(stored: token.id)
        }
    }

    /// Whether the hardware can revoke the key of a credential. After its removal, no copy of the
    /// store then opens it. Does not use the hardware.
    ///
    /// - Returns: nil for a credential without a policy, and if no credential has this id.
    /// - Throws: `KeystoreError` when the store can't be read.
    package func isStoredRevocably(id: String) async throws -> Bool? {
        guard let protection = try rows.protection(id), protection.policy != .none else {
            return nil
        }
        return try await records.areRevocable([CredentialRows.classes(id)])
    }

    /// - Parameter prepared: The token's own key, or nil for the device's.
    private func insert(
        _ token: Token, _ tags: [String: String], in prepared: PreparedClass? = nil
    ) throws -> Credential {
        try CredentialRows.check(tags: tags)
        try token.checkIssuer()
        let protection = prepared?.protection ?? .device
        let metadata = CredentialRows.metadata(
            of: token, tags: tags, security: protection.policy, copying: configuration.copiedClaims)
        let insertion =
            try CredentialRows.insertion(token, metadata: metadata, in: protection)
        let becomesDefault = try changingDefault {
            // Without other credentials, a stored default refers to a removed credential.
            let becomesDefault = try !records.hasAny(CredentialRows.kind)
            var changes = try insertion + keys.insertion(of: token.context)
            if becomesDefault {
                changes.append(
                    CredentialRows.put(defaultID: token.id, ifGeneration: rows.defaultGeneration))
            }
            do {
                try records.applyNow(changes, classes: prepared.map { [.add($0)] } ?? [])
            } catch let error as KeystoreError where error.code == .conflict {
                throw try rows.exists(token.id) ? CredentialError.duplicate(token.id) : error
            }
            return becomesDefault
        }
        let credential = credential(stored: token.id)
        publish(.created(credential))
        publishUnsearchableClaims(of: token, credential)
        if becomesDefault { publish(.defaultChanged(credential)) }
        return credential
    }

    /// Reports the claims that `find(where:)` does not find.
    func publishUnsearchableClaims(of token: Token, _ credential: Credential) {
        let names = CredentialRows.unsearchableClaims(
            of: token, copying: configuration.copiedClaims)
        if !names.isEmpty { publish(.claimsNotCopied(credential, names: names)) }
    }

    /// Runs a change that may change the default, and repeats it if another program changed the
    /// default at the same time: by storing the first credential or removing the last.
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

extension Token {
    /// Checks that the context names the issuer of the ID token, if there is one. With another
    /// address, the token could be stored, and not refreshed or revoked.
    func checkIssuer() throws(CredentialError) {
        guard let issuer = idToken?.issuer, !ProviderMetadata.isSame(issuer, context.issuer) else {
            return
        }
        throw CredentialError(
            code: .invalidInput,
            reason:
                "its context names the server ‘\(String(oneLine: context.issuer, limit: 200))’, and its ID token is from "
                + "‘\(String(oneLine: issuer, limit: 200))’",
            recovery: "Create the token with the context of the server that issued it.")
    }
}

extension CredentialStore {
    /// The app's default credential, or nil. Also nil if the last attempt to open the store has
    /// found that it belongs to other hardware.
    ///
    /// - Throws: `KeystoreError` with code `damaged` if the row that names it can't be read.
    public var defaultCredential: Credential? {
        get throws {
            guard !records.isKnownForeign, let existing = try rows.existingDefault else {
                return nil
            }
            return try credential(id: existing.id)
        }
    }

    /// Sets or clears the default. Clearing it removes no credential.
    ///
    /// - Throws: ``CredentialError`` with code `notFound` for a credential that is not stored.
    public func setDefault(_ credential: Credential?) throws {
        do {
            guard try rows.existingDefault?.id != credential?.id else { return }
        } catch let error as KeystoreError {
            // The new default replaces a row that can't be read.
            guard error.code == .damaged else { throw error }
        }
        if let credential {
            guard try rows.exists(credential.id) else {
                throw CredentialError.notFound(credential.id).during("set the default credential")
            }
            try records.applyNow([CredentialRows.put(defaultID: credential.id)])
        } else {
            try records.applyNow([.delete(CredentialRows.defaultID, ifGeneration: nil)])
        }
        publish(.defaultChanged(credential))
    }
}
