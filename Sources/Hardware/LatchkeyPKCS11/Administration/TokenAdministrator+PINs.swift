package import Latchkey

extension TokenAdministrator {
    /// Changes the user's PIN. Prompts for the current one, then for the new one.
    ///
    /// - Throws: `KeystoreError`; `wrongProof`, `lockedOut`, `passcodeNotSet` if the user has none
    ///   yet, `invalidInput` for a new PIN that the token does not accept.
    package func changePIN() async throws(KeystoreError) {
        let operation = "change the token's PIN"
        try await withEntry(to: operation) { (entry) throws(KeystoreError) in
            guard entry.information.flags.contains(.userPINInitialized) else {
                throw .noUserPIN(entry.profile)
            }
            guard !entry.information.flags.contains(.userPINLocked) else {
                throw await lockedPIN(entry)
            }
            let old = try await proof(.current, of: entry, to: operation)
            let new = try await newProof(for: entry, to: operation)
            try await administer(entry, as: .user) { (token) throws(CryptokiError) in
                try await token.changePIN(from: old, to: new)
            }
            presence.accepted()
        }
    }

    /// Changes the security officer's PIN (on a YubiKey: the management key). Prompts for the
    /// current one, then for the new one.
    package func changeSecurityOfficerPIN() async throws(KeystoreError) {
        let operation = "change the security officer's PIN"
        try await withEntry(to: operation) { (entry) throws(KeystoreError) in
            if case .program(let program) = entry.unblocking {
                throw .unsupported(
                    "Latchkey can't change a security officer's PIN through this token's module",
                    recovery:
                        "Change the PUK or the admin PIN with the card's own program. "
                        + "To unblock the PIN, run `\(program)`.")
            }
            try refuseWhenOfficerLocked(entry)
            guard await cardStatus(of: entry)?.isManagementKeyProtected != true else {
                throw .unsupported(
                    "the card stores its management key under the PIN, and Latchkey can't store a new key there",
                    recovery:
                        "Run `ykman piv access change-management-key --protect`, which also replaces the stored key."
                )
            }
            let old = try await proof(.securityOfficer, of: entry, to: operation)
            let new = try await newProof(of: .securityOfficer, for: entry, to: operation)
            if entry.profile.usesSlotIDs { try ManagementKey.check(new) }
            try await administer(entry, as: .securityOfficer, old) {
                (session) throws(CryptokiError) in
                try session.setPIN(from: old, to: new)
            }
        }
    }

    /// Sets the user's first PIN, or replaces a forgotten or locked one. Prompts for the security
    /// officer's PIN, then for the user's new one.
    ///
    /// - Throws: `KeystoreError`; `unsupported` for a module that unblocks in another way: see
    ///   ``unblockPIN()``.
    package func initializePIN() async throws(KeystoreError) {
        let operation = "set the token's PIN"
        try await withEntry(to: operation) { (entry) throws(KeystoreError) in
            let reason = "the security officer of this kind of token can't set the user's PIN"
            switch entry.unblocking {
            case .securityOfficer: try await setPIN(of: entry, to: operation)
            case .prefixedSetPIN:
                guard await cardStatus(of: entry)?.pukAttemptsLeft != 0 else { throw .pukBlocked() }
                throw .unsupported(
                    reason, recovery: Recovery("Set a new PIN with the PUK.", .unblockPIN))
            case .program(let program):
                throw .unsupported(
                    reason, recovery: "Set a new PIN with the PUK or the Admin PIN: `\(program)`.")
            }
        }
    }

    /// Replaces a PIN that is locked after too many wrong ones, in the way that the module
    /// supports.
    ///
    /// Prompts for the unblocking code (PUK or security officer's PIN), then for the new PIN.
    ///
    /// - Throws: `KeystoreError`; `unsupported` if only another program can do it: the recovery
    ///   names it.
    package func unblockPIN() async throws(KeystoreError) {
        let operation = "unblock the token's PIN"
        try await withEntry(to: operation) { (entry) throws(KeystoreError) in
            switch entry.unblocking {
            case .securityOfficer: try await setPIN(of: entry, to: operation)
            case .prefixedSetPIN:
                guard await cardStatus(of: entry)?.pukAttemptsLeft != 0 else { throw .pukBlocked() }
                guard case .pin(let code) = try await proof(.unblocking, of: entry, to: operation),
                    case .pin(let new) = try await newProof(for: entry, to: operation)
                else {
                    throw .unsupported(
                        "this kind of token accepts its PUK only from the computer",
                        recovery: Recovery(
                            "Enter it here, not on the reader's PIN pad.", .enterPINHere))
                }
                let (old, pin) = (code.prefixed("puk:"), new.prefixed("pin:"))
                do throws(KeystoreError) {
                    try await inspect(entry, checking: .puk) {
                        (session, login) throws(CryptokiError) in
                        login.forget()
                        try session.logout()
                        try session.setPIN(from: .secret(old), to: .secret(pin))
                    }
                } catch {
                    throw error.counting(await cardStatus(of: entry)?.pukAttemptsLeft)
                }
                presence.accepted()
            case .program(let program):
                throw .unsupported(
                    "this token's module can't unblock the PIN",
                    recovery:
                        "Run `\(program)`, which prompts for the unblocking code and the new PIN.")
            }
        }
    }

    private func setPIN(of entry: TokenDirectory.Entry, to reason: String)
        async throws(KeystoreError)
    {
        try refuseWhenOfficerLocked(entry)
        let officer = try await proof(.securityOfficer, of: entry, to: reason)
        let new = try await newProof(for: entry, to: reason)
        try await administer(entry, as: .securityOfficer, officer) {
            (session) throws(CryptokiError) in
            try session.initializePIN(new)
        }
        presence.accepted()
    }

    /// Runs a public operation with the token, after checking that it is initialized and opens
    /// sessions.
    private func withEntry(
        to operation: String, _ body: (TokenDirectory.Entry) async throws(KeystoreError) -> Void
    ) async throws(KeystoreError) {
        do throws(KeystoreError) {
            let entry = try await entry()
            guard entry.information.flags.contains(.initialized) else {
                throw KeystoreError(
                    code: .wrongState, reason: "the token is not initialized",
                    recovery: Recovery("Initialize it first.", .initializeToken))
            }
            try await inspect(entry) { (session, _) throws(CryptokiError) in
                _ = try session.tokenInformation()
            }
            try await body(entry)
        } catch {
            throw error.during(operation)
        }
    }

    private func lockedPIN(_ entry: TokenDirectory.Entry) async -> KeystoreError {
        let isPUKBlocked = await cardStatus(of: entry)?.pukAttemptsLeft == 0
        return .pinLocked(entry.profile, isPUKBlocked: isPUKBlocked)
    }

    private func refuseWhenOfficerLocked(_ entry: TokenDirectory.Entry) throws(KeystoreError) {
        guard entry.information.flags.contains(.securityOfficerPINLocked) else { return }
        throw KeystoreError(
            code: .lockedOut,
            reason: "the security officer's PIN is locked after too many wrong PINs",
            recovery: "Erase the token with its manufacturer's program.")
    }
}

extension TokenDirectory.Entry {
    /// How a blocked PIN of the token is unblocked.
    fileprivate var unblocking: ModuleProfile.Unblocking {
        guard case .program = profile.unblocking, information.isOpenPGP else {
            return profile.unblocking
        }
        return .program(TokenInformation.openPGPProgram)
    }
}

extension PIN {
    /// The PIN with a prefix that tells a module which PIN it is.
    fileprivate func prefixed(_ word: String) -> SecretBytes {
        withUnsafeBytes { bytes in
            SecretBytes(count: word.utf8.count + bytes.count) { buffer in
                buffer.copyBytes(from: word.utf8)
                UnsafeMutableRawBufferPointer(rebasing: buffer.dropFirst(word.utf8.count))
                    .copyMemory(from: bytes)
            }
        }
    }
}

/// The management key of a YubiKey, which Yubico's module accepts as the security officer's PIN: 24
/// bytes in 48 hexadecimal digits.
///
/// ykcs11 2.2.0 does not check the length: it pads a shorter key with zeros, and would set an
/// unintended key.
enum ManagementKey {
    private static let digits = 48

    static func isWellFormed(_ key: PIN) -> Bool {
        key.withUnsafeBytes { bytes in
            bytes.count == digits && bytes.allSatisfy { Character(Unicode.Scalar($0)).isHexDigit }
        }
    }

    /// Checks the form of a new key before it is sent.
    ///
    /// - Throws: ``KeystoreError`` with code `invalidInput`.
    static func check(_ proof: LoginProof) throws(KeystoreError) {
        guard case .pin(let pin) = proof else { return }
        guard isWellFormed(pin) else {
            throw KeystoreError(
                code: .invalidInput,
                reason:
                    "a YubiKey's management key has \(digits) hexadecimal digits, and the new one does not",
                recovery: "Try again with a key of that form; this one was not sent.")
        }
    }
}
