internal import Latchkey
internal import TPM2

extension TPMKeystore {
    /// Refuses what this hardware can't enforce, before anybody is asked anything.
    func checkSupport(_ policy: AccessPolicy, _ operation: String) throws(KeystoreError) {
        guard policy.requirement == .none || policy.requirement == .pin else {
            throw .unsupported(
                operation,
                "a TPM can check a finger only through the presence broker, which this version does not have",
                recovery: "Use the policy `pin`.")
        }
        guard policy.reuseSeconds == 0, policy.attemptLimit == nil else {
            throw .unsupported(
                operation, "this version can't have the TPM enforce a time of reuse or a key's own attempt limit",
                recovery: "Leave them out; the TPM's own limit of wrong PINs holds.")
        }
    }

    /// Asks for a PIN that will be set.
    func newPIN(
        _ prompt: PromptContext, _ operation: String, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> PIN {
        try await ask(PINRequest(purpose: .new, context: prompt), operation, presence)
    }

    /// Asks for the PIN that is set, unless the TPM is locked: nobody should type into a locked door.
    func currentPIN(
        _ prompt: PromptContext, _ operation: String, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> PIN {
        let status = try await lockoutState(operation).status
        guard !status.isLockedOut else { throw .lockedOut(operation, status) }
        return try await ask(
            PINRequest(purpose: .current, context: prompt, attemptsLeft: status.attemptsLeft), operation, presence)
    }

    private func ask(
        _ request: PINRequest, _ operation: String, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> PIN {
        switch try await presence.pin(request) {
        case .declined(let reason): throw .cancelled(operation, reason)
        case .pin(let pin):
            guard !Task.isCancelled else { throw .cancelled(operation) }
            return pin
        }
    }

    /// The authValue of a key whose policy has a PIN.
    func authValue(_ pin: PIN?, salt: [UInt8]?, _ operation: String) throws(KeystoreError) -> AuthValue {
        guard let pin, let salt else { return .empty }
        do {
            return try PINHardening.authValue(pin, salt: salt)
        } catch {
            throw KeystoreError(error, during: operation)
        }
    }
}
