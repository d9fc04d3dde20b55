package import Latchkey

extension TokenAdministrator {
    /// Changes the user's PIN. Asks for the one that is set, then for the new one.
    ///
    /// - Throws: `KeystoreError`; `wrongProof`, `lockedOut`, `passcodeNotSet` when the user has none yet,
    ///   `invalidInput` for a new PIN that the token won't take.
    package func changePIN() async throws(KeystoreError) {
        let operation = "change the token's PIN"
        let entry = try await usable(operation)
        try check(operation, entry, isSet: true)
        try refuseWhenLocked(operation, entry)
        let old = try await proof(.current, of: entry, to: operation)
        let new = try await newProof(for: entry, to: operation)
        // tpm2-pkcs11 1.9.0 answers CKR_OK to a C_SetPIN without a login, also where the TPM refused the old PIN.
        try await administer(operation, on: entry, as: .user, old) { (session) throws(CryptokiError) in
            try session.changePIN(from: old, to: new)
        }
    }

    /// Changes the security officer's PIN (on a YubiKey: the management key). Asks for the one that is set, then for the
    /// new one.
    package func changeSecurityOfficerPIN() async throws(KeystoreError) {
        let operation = "change the security officer's PIN"
        let entry = try await usable(operation)
        try refuseWhenOfficerLocked(operation, entry)
        let old = try await proof(.securityOfficer, of: entry, to: operation)
        let new = try await newProof(of: .securityOfficer, for: entry, to: operation)
        if ModuleProfile(for: entry.module).identifiers == .slot { try ManagementKey.check(new, operation) }
        try await administer(operation, on: entry, as: .securityOfficer, old) { (session) throws(CryptokiError) in
            try session.changePIN(from: old, to: new)
        }
    }

    /// Sets the user's PIN as the security officer: the first one, or instead of one that was forgotten or is locked.
    /// Asks for the security officer's PIN, then for the user's new one.
    ///
    /// - Throws: `KeystoreError`; `unsupported` for a token whose module unblocks in another way: see
    ///   ``unblockPIN()``.
    package func initializePIN() async throws(KeystoreError) {
        let operation = "set the token's PIN"
        let entry = try await usable(operation)
        guard case .securityOfficer = ModuleProfile(for: entry.module).unblocking else {
            throw .unsupported(
                operation, "the security officer of this kind of token can't set the user's PIN",
                recovery: "Use ‘latchkey token pin --unblock’, which says what there is instead.")
        }
        try await setPIN(operation, entry)
    }

    /// Gives the user a new PIN when too many wrong ones have locked it, in the way that the module has.
    ///
    /// Asks for the unblocking code (PUK or security officer's PIN), then for the new PIN.
    ///
    /// - Throws: `KeystoreError`; `unsupported` where only another program can: the recovery names it.
    package func unblockPIN() async throws(KeystoreError) {
        let operation = "unblock the token's PIN"
        let entry = try await usable(operation)
        switch ModuleProfile(for: entry.module).unblocking {
        case .securityOfficer: try await setPIN(operation, entry)
        case .prefixedSetPIN:
            guard
                case .pin(let code) = try await proof(.unblocking, of: entry, to: operation),
                case .pin(let new) = try await newProof(for: entry, to: operation)
            else {
                throw .unsupported(
                    operation, "this kind of token takes its PUK from the computer only",
                    recovery: "Leave the reader's pad out: --token-login pin.")
            }
            let (old, pin) = (code.prefixed("puk:"), new.prefixed("pin:"))
            try await perform(operation, on: entry) { (session) throws(CryptokiError) in
                try session.changePIN(from: .secret(old), to: .secret(pin))
            }
        case .program(let program):
            throw .unsupported(
                operation, "this token's module can't do it",
                recovery: "Run ‘\(program)’, which asks for the unblocking code and the new PIN.")
        }
    }

    private func setPIN(_ operation: String, _ entry: TokenDirectory.Entry) async throws(KeystoreError) {
        try refuseWhenOfficerLocked(operation, entry)
        let officer = try await proof(.securityOfficer, of: entry, to: operation)
        let new = try await newProof(for: entry, to: operation)
        try await administer(operation, on: entry, as: .securityOfficer, officer) { (session) throws(CryptokiError) in
            try session.initializePIN(new)
        }
    }
}

extension TokenAdministrator {
    /// The token, initialised and willing to open sessions.
    func usable(_ operation: String) async throws(KeystoreError) -> TokenDirectory.Entry {
        let entry = try await entry(operation)
        guard entry.information.flags.contains(.initialized) else {
            throw KeystoreError(
                operation: operation, code: .wrongState, reason: "the token is not initialised",
                recovery: "Run ‘latchkey token init’ first.")
        }
        try await checkSession(operation, entry)
        return entry
    }

    /// Logs in, does `body` and leaves nobody logged in.
    func administer(
        _ operation: String, on entry: TokenDirectory.Entry, as role: LoginRole, _ proof: LoginProof,
        _ body: @escaping @Sendable (Session) throws(CryptokiError) -> Void
    ) async throws(KeystoreError) {
        try await perform(operation, on: entry, provesFirst: true) { (session) throws(CryptokiError) in
            try session.login(role, with: proof)
            defer { try? session.logout() }
            try body(session)
        }
    }

    /// Does `body` in the token's own session, in which nobody is logged in.
    ///
    /// - Parameter provesFirst: Whether `body` logs in before it sets a PIN, so that the new one is to blame after that.
    private func perform(
        _ operation: String, on entry: TokenDirectory.Entry, provesFirst: Bool = false,
        _ body: @escaping @Sendable (Session) throws(CryptokiError) -> Void
    ) async throws(KeystoreError) {
        do throws(CryptokiError) {
            let token = try await Token.find(entry.uri, options: options.token)
            let login = token.login
            try await token.perform { (session) throws(CryptokiError) in
                login.forget()
                try session.logout()
                try body(session)
            }
        } catch {
            if provesFirst, let refusal = KeystoreError.newPINRefused(operation, error) { throw refusal }
            throw KeystoreError(error, during: operation, profile: ModuleProfile(for: entry.module))
        }
    }

    /// A new PIN that is not too short or too long for the token.
    func newProof(
        of role: LoginRole = .user, for entry: TokenDirectory.Entry, to reason: String
    ) async throws(KeystoreError) -> LoginProof {
        let proof = try await proof(.new, of: entry, to: reason)
        if case .pin(let pin) = proof { try nature(of: entry).checkNew(pin, of: role, reason) }
        return proof
    }

    private func check(
        _ operation: String, _ entry: TokenDirectory.Entry, isSet: Bool
    ) throws(KeystoreError) {
        guard entry.information.flags.contains(.userPINInitialized) == isSet else {
            throw KeystoreError(
                operation: operation, code: .passcodeNotSet, reason: "the token's user has no PIN yet",
                recovery: "Set one with ‘latchkey token pin --init’.")
        }
    }

    private func refuseWhenLocked(_ operation: String, _ entry: TokenDirectory.Entry) throws(KeystoreError) {
        guard entry.information.flags.contains(.userPINLocked) else { return }
        throw KeystoreError(
            CryptokiError(.pinLocked, from: "C_GetTokenInfo"), during: operation,
            profile: ModuleProfile(for: entry.module))
    }

    private func refuseWhenOfficerLocked(_ operation: String, _ entry: TokenDirectory.Entry) throws(KeystoreError) {
        guard entry.information.flags.contains(.securityOfficerPINLocked) else { return }
        throw KeystoreError(
            operation: operation, code: .lockedOut,
            reason: "the token takes no security officer's PIN after too many wrong ones",
            recovery: "Only erasing the token helps now: see its maker's program.")
    }
}

extension PIN {
    /// The PIN behind a word that tells a module which PIN it is.
    fileprivate func prefixed(_ word: String) -> SecretBytes {
        withUnsafeBytes { bytes in
            SecretBytes(count: word.utf8.count + bytes.count) { buffer in
                buffer.copyBytes(from: word.utf8)
                UnsafeMutableRawBufferPointer(rebasing: buffer.dropFirst(word.utf8.count)).copyMemory(from: bytes)
            }
        }
    }
}
