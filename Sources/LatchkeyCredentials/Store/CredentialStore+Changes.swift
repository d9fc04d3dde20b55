public import Latchkey

extension CredentialStore {
    // MARK: Storing

    /// Stores a token. The first one of all becomes the default credential.
    ///
    /// - Parameters:
    ///   - tags: Names and values of the app's own, by which the credential can be found: names of 1 to 128 bytes, values
    ///     of at most 4096. They are in the clear.
    ///   - security: What opens the token. `.none` binds it to this machine's hardware; with any other policy somebody
    ///     must be present, and is asked the first time.
    /// - Throws: `KeystoreError`; `conflict` when a token of that id is stored, `unsupported` when the hardware can't
    ///   enforce the policy, `cancelled`. Nothing is then stored.
    @discardableResult
    public func store(
        token: Token, tags: [String: String] = [:], security: AccessPolicy = .none
    ) async throws(KeystoreError) -> Credential {
        try await checkSupport(for: security)
        let isDefault = try await retried { () throws(KeystoreError) in
            let (changes, isDefault) = try storing(token, tags, security)
            try await records.apply(
                changes, for: prompt("store the credential of \(token.context.issuer)"), authorizedBy: presence)
            return isDefault
        }
        return stored(token, isDefault: isDefault)
    }

    /// ``store(token:tags:security:)`` on the caller's own thread. Tokens of the policy must be open.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    @discardableResult
    public func store(
        token: Token, tags: [String: String] = [:], security: AccessPolicy = .none
    ) throws(KeystoreError) -> Credential {
        let isDefault = try retriedNow { () throws(KeystoreError) in
            let (changes, isDefault) = try storing(token, tags, security)
            try records.applyNow(changes)
            return isDefault
        }
        return stored(token, isDefault: isDefault)
    }

    /// The credential of a token, which is stored without tags if it isn't yet.
    public func with(token: Token) async throws(KeystoreError) -> Credential {
        if let standing = try with(id: token.id) { return standing }
        do {
            return try await store(token: token)
        } catch {
            guard error.code == .conflict, let standing = try with(id: token.id) else { throw error }
            return standing
        }
    }

    /// ``with(token:)`` on the caller's own thread.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    public func with(token: Token) throws(KeystoreError) -> Credential {
        if let standing = try with(id: token.id) { return standing }
        return try store(token: token)
    }

    private func checkSupport(for security: AccessPolicy) async throws(KeystoreError) {
        guard security.requirement != .none else { return }
        guard try await records.keystore.capabilities().sealing.contains(security.requirement) else {
            throw .unsupported(
                "store the credential", "this hardware can't enforce the policy ‘\(security)’",
                recovery: "Use a policy that it can enforce: see ‘latchkey doctor’.")
        }
    }

    private func storing(
        _ token: Token, _ tags: [String: String], _ security: AccessPolicy
    ) throws(KeystoreError) -> (changes: [RecordChange], isDefault: Bool) {
        guard try !records.exists(CredentialRows.id(token.id)) else {
            throw duplicate(token.id)
        }
        var changes = try CredentialRows.put(token, tags: tags, security: security, claims: configuration.claims)
        let isDefault = try !records.hasAny(CredentialRows.kind)
        if isDefault {
            let standing = try records.metadataNow(CredentialRows.defaultID)?.generation ?? 0
            changes.append(CredentialRows.put(default: token.id, ifGeneration: standing))
        }
        return (changes, isDefault)
    }

    private func stored(_ token: Token, isDefault: Bool) -> Credential {
        let credential = credential(token.id)
        tell(.created(credential))
        if isDefault { tell(.defaultChanged(credential)) }
        return credential
    }

    // MARK: The default

    /// Makes a credential the default one, or none. The others stay as they are.
    ///
    /// - Throws: `KeystoreError`; `notFound` when the credential is not stored.
    public func setDefault(_ credential: Credential?) async throws(KeystoreError) {
        let changed = try await retried { () throws(KeystoreError) in
            guard let change = try settingDefault(credential) else { return false }
            try await records.apply([change], for: prompt("choose the default credential"), authorizedBy: presence)
            return true
        }
        if changed { tell(.defaultChanged(credential)) }
    }

    /// ``setDefault(_:)`` on the caller's own thread.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    public func setDefault(_ credential: Credential?) throws(KeystoreError) {
        try setDefaultNow(credential)
    }

    func setDefaultNow(_ credential: Credential?) throws(KeystoreError) {
        let changed = try retriedNow { () throws(KeystoreError) in
            guard let change = try settingDefault(credential) else { return false }
            try records.applyNow([change])
            return true
        }
        if changed { tell(.defaultChanged(credential)) }
    }

    /// nil when it is as it should be.
    private func settingDefault(_ credential: Credential?) throws(KeystoreError) -> RecordChange? {
        let standing = try records.metadataNow(CredentialRows.defaultID)
        guard standing?.attributes["id"] != credential?.id else { return nil }
        guard let credential else { return .delete(CredentialRows.defaultID, ifGeneration: nil) }
        guard try records.exists(CredentialRows.id(credential.id)) else { throw missing(credential.id) }
        return CredentialRows.put(default: credential.id, ifGeneration: standing?.generation ?? 0)
    }

    // MARK: Removing

    /// Removes a credential and its token from this machine. The server is told nothing. Needs nobody, whatever protects
    /// the token. When it was the default one there is none afterwards.
    ///
    /// - Throws: `KeystoreError`; `notFound` when there is no such credential.
    public func remove(_ credential: Credential) async throws(KeystoreError) {
        let wasDefault = try await retried { () throws(KeystoreError) in
            let (changes, isDefault) = try removing(credential.id)
            try await records.apply(changes, for: prompt("remove the credential"))
            return isDefault
        }
        removed(credential, wasDefault: wasDefault)
    }

    /// ``remove(_:)`` on the caller's own thread.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    public func remove(_ credential: Credential) throws(KeystoreError) {
        let wasDefault = try retriedNow { () throws(KeystoreError) in
            let (changes, isDefault) = try removing(credential.id)
            try records.applyNow(changes)
            return isDefault
        }
        removed(credential, wasDefault: wasDefault)
    }

    private func removing(_ id: String) throws(KeystoreError) -> (changes: [RecordChange], isDefault: Bool) {
        guard try records.exists(CredentialRows.id(id)) else { throw missing(id) }
        var changes: [RecordChange] = [
            .delete(CredentialRows.id(id), ifGeneration: nil), .delete(CredentialRows.tokenID(id), ifGeneration: nil),
        ]
        let standing = try records.metadataNow(CredentialRows.defaultID)
        let isDefault = standing?.attributes["id"] == id
        if isDefault { changes.append(.delete(CredentialRows.defaultID, ifGeneration: standing?.generation)) }
        return (changes, isDefault)
    }

    private func removed(_ credential: Credential, wasDefault: Bool) {
        evict(credential.id)
        credential.stopAutomaticRefresh()
        tell(.removed(credential))
        if wasDefault { tell(.defaultChanged(nil)) }
    }

    // MARK: Helpers

    /// How often a change is worked out anew when another program comes in between.
    private static let attempts = 5

    private func retried<R>(_ change: () async throws(KeystoreError) -> R) async throws(KeystoreError) -> R {
        for _ in 1..<Self.attempts {
            do throws(KeystoreError) {
                return try await change()
            } catch {
                guard error.code == .conflict else { throw error }
            }
        }
        return try await change()
    }

    private func retriedNow<R>(_ change: () throws(KeystoreError) -> R) throws(KeystoreError) -> R {
        for _ in 1..<Self.attempts {
            do throws(KeystoreError) {
                return try change()
            } catch {
                guard error.code == .conflict else { throw error }
            }
        }
        return try change()
    }

    private func duplicate(_ id: String) -> KeystoreError {
        .conflict(
            "store the credential", "a token with the id ‘\(id)’ is stored already",
            recovery: "Use the credential that is there, or remove it first.")
    }

    func missing(_ id: String) -> KeystoreError {
        .notFound(
            "use the credential", "there is none with the id ‘\(id)’",
            recovery: "It may have been removed; sign in again.")
    }
}
