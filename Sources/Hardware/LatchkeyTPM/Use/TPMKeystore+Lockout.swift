internal import FoundationEssentials
public import Latchkey
internal import TPM2

extension TPMKeystore {
    /// Lifts a lockout with a proof that is stronger than the locked one.
    ///
    /// - After fingers that did not match: the user's PIN. The broker then accepts fingers again.
    ///   If the policy accepts the PIN, this call does not prompt; the next use prompts for the
    ///   PIN.
    /// - After wrong PINs that the presence broker counts: a fingerprint. The broker then resets
    ///   the count. If the policy accepts a finger, this call does not prompt; the next use prompts
    ///   for the finger.
    /// - After wrong PINs that the TPM counts: the TPM's lockout password. If none is set, this
    ///   call returns `false`: a reset without a proof would permit an unlimited number of guesses
    ///   through this call.
    public func liftLockout(
        of secret: SealedSecret, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> Bool {
        do throws(KeystoreError) {
            let (protection, parent) = try stored(secret)
            let policy = secret.policy
            if policy.hasPIN, try await !status(of: protection).isLockedOut { return true }
            let fingers = await presence.broker?.fingerState()
            if policy.hasFinger, fingers == .ready { return true }
            if policy.hasPIN, protection.userPIN == nil {
                return try await resetCount(under: root(named: parent), prompt.container, presence)
            }
            guard let broker = presence.broker?.approvals else { return false }
            switch (fingers, protection.userPIN) {
            case (.ready, let pin?): return try await resetCount(of: pin, prompt.container, broker)
            case (.lockedOut, nil):
                return try await unlockFingers(
                    under: root(named: parent), prompt.container, broker, presence)
            default: return false
            }
        } catch { throw error.during("lift a lockout") }
    }

    /// The protection of a sealed secret and the Name of its parent.
    func stored(
        _ secret: SealedSecret
    ) throws(KeystoreError) -> (protection: PresenceProtection, parentName: TPMName) {
        guard !secret.isRevocable else {
            return (.secretIndex, try revocable(secret).parentName)
        }
        let blob = try blob(secret)
        return (blob.protection, blob.parentName)
    }

    /// Proves the user's PIN to the TPM. The broker then accepts fingers again.
    ///
    /// - Returns: `false` if the user has no PIN.
    private func unlockFingers(
        under root: StorageRoot, _ container: String, _ broker: any ApprovalService,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> Bool {
        guard let pin = try await broker.terms(for: .pin).userPIN else { return false }
        let prompt = PromptContext(reason: "unlock your fingerprint", container: container)
        try await confirmUserPIN(pin, root, prompt, presence)
        return await broker.fingerState() == .ready
    }

    /// Resets the broker's count with a fingerprint. The approval is for a key and a session that
    /// do not exist, so it authorizes no use.
    private func resetCount(
        of pin: PresenceProtection.UserPIN, _ container: String, _ broker: any ApprovalService
    ) async throws(KeystoreError) -> Bool {
        let request = ApprovalRequest(
            use: .unseal, keyName: Data([0x00, 0x0b] + PolicyDigest.random().bytes),
            nonceTPM: Data(PolicyDigest.random().bytes), policy: .userPresence,
            context: PromptContext(reason: "unlock your PIN", container: container))
        switch try await broker.approve(request) {
        case .approved: return try await !userPINStatus(pin).isLockedOut
        case .notRecognised: throw .otherFinger()
        case .declined(let why): throw .cancelled(why)
        }
    }

    /// Resets the TPM's count with the lockout password, and reads the count. Never sends an empty
    /// password.
    private func resetCount(
        under root: StorageRoot, _ container: String, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> Bool {
        let (state, isPasswordSet) = try await withTPM { (tpm) throws(TPMError) in
            (try LockoutState(tpm), try tpm.isLockoutPasswordSet())
        }
        guard isPasswordSet else { return false }
        let wait =
            state.recovery == 0 ? "until the machine restarts" : "for \(state.recovery) seconds"
        let password = try await presence.givenPIN(
            PINRequest(
                purpose: .lockoutPassword,
                context: PromptContext(
                    reason: "end the TPM's lockout; a wrong password disables this reset \(wait)",
                    container: container)))
        let explain: Explanation = { error in
            error.command == .dictionaryAttackLockReset
                ? .lockoutPasswordRefused(error, wait, seconds: state.recovery)
                : KeystoreError(error)
        }
        guard let authValue = password.withUnsafeBytes({ AuthValue($0) }) else {
            throw KeystoreError(
                code: .wrongProof,
                reason: "the lockout password is wrong: it is longer than 32 bytes",
                recovery: "Try again with the TPM's lockout password; this one was not sent.")
        }
        try await withTPM(explainedBy: explain) { (tpm) throws(TPMError) in
            try tpm.withSaltedSession(under: root) { (session, _) throws(TPMError) in
                try tpm.execute(
                    DictionaryAttackLockReset(),
                    authorizedBy: .lastUse(of: session, authValue: authValue))
            }
        }
        return try await !lockoutStatus().isLockedOut
    }
}

extension KeystoreError {
    /// - Parameter seconds: The time for which the TPM refuses the lockout password; 0 until the
    ///   machine restarts.
    fileprivate static func lockoutPasswordRefused(
        _ error: TPMError, _ wait: String, seconds: UInt32
    ) -> KeystoreError {
        let step =
            seconds == 0
            ? "Restart the machine, then try again." : "Leave the machine on and try again later."
        return switch error.responseCode?.base {
        case .authFail, .badAuth:
            KeystoreError(
                code: .wrongProof, reason: "the lockout password is wrong",
                recovery: "The TPM accepts no lockout password \(wait). \(step)",
                underlying: .init(error))
        case .lockout:
            KeystoreError(
                code: .lockedOut, reason: "the TPM refuses its lockout password after a wrong one",
                recovery: "It refuses the password \(wait). \(step)",
                underlying: .init(error))
        default: KeystoreError(error)
        }
    }
}
