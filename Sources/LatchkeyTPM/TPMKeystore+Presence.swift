internal import Latchkey
internal import TPM2

extension TPMKeystore {
    /// Refuses what this hardware can't enforce, before anybody is asked anything.
    func checkSupport(_ policy: AccessPolicy, _ operation: String) throws(KeystoreError) {
        guard policy.attemptLimit == nil else {
            throw .unsupported(
                operation, "a TPM can't have a limit of attempts for one key", recovery: "Leave it out.")
        }
    }

    /// Refuses what the hardware can't enforce with what there is for the policy.
    func checkSupport(
        _ policy: AccessPolicy, _ protection: PresenceProtection?, _ operation: String
    ) throws(KeystoreError) {
        guard policy.fits(protection) else {
            throw .unsupported(
                operation, "a TPM can't have a PIN of the key's own serve for some seconds",
                recovery: "Leave the time of reuse out, or use a policy with a finger only.")
        }
    }

    /// Asks for a PIN that will be set.
    ///
    /// The TPM is asked for the state of its lockout password only if the PIN is short. The answer is not authenticated: the
    /// rule keeps a user from a weak choice, and an interposer that forges the answer gains a PIN that is easier to guess.
    ///
    /// - Parameter isCounted: Whether the TPM's own guard counts wrong ones; a user's own PIN has another count,
    ///   which the lockout password does not reset.
    func newPIN(
        isCounted: Bool = true, _ prompt: PromptContext, _ operation: String, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> PIN {
        let pin = try await presence.givenPIN(PINRequest(purpose: .new, context: prompt), to: operation)
        guard isCounted, !allowsShortPINs, pin.characterCount < Self.minimumPINCharacters,
            (presence as? any SetPINAuthority)?.gaveSetPIN != true,
            try await !visit(operation, { (tpm) throws(TPMError) in try tpm.isLockoutPasswordSet() })
        else { return pin }
        throw KeystoreError(
            operation: operation, code: .invalidInput,
            reason:
                "the PIN has fewer than \(Self.minimumPINCharacters) characters, and the TPM's lockout password is empty: "
                + "every user of the TPM can reset the count of wrong PINs",
            recovery: "Choose a longer PIN, have an administrator set the lockout password "
                + "(\(TPMDiagnosis.lockoutPasswordCommand)), or pass --allow-short-pin.")
    }

    /// Asks for the PIN that is set, unless the TPM is locked: nobody should type into a locked door.
    func currentPIN(
        _ prompt: PromptContext, _ operation: String, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> PIN {
        let status = try await lockoutState(operation).status
        guard !status.isLockedOut else { throw .lockedOut(operation, status) }
        return try await currentPIN(status, prompt, operation, presence)
    }

    func currentPIN(
        _ status: PINStatus, _ prompt: PromptContext, _ operation: String, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> PIN {
        try await presence.givenPIN(
            PINRequest(purpose: .current, context: prompt, attemptsLeft: status.attemptsLeft), to: operation)
    }

    /// The authValue of a key whose policy has a PIN.
    func authValue(
        _ pin: PIN?, salt: [UInt8]?, boundTo binding: KeyBinding?, _ operation: String
    ) throws(KeystoreError) -> AuthValue {
        guard let pin, let salt else { return .empty }
        do {
            return try PINHardening.authValue(pin, salt: salt, boundTo: binding)
        } catch {
            throw KeystoreError(error, during: operation)
        }
    }
}
