internal import FoundationEssentials
public import Latchkey
internal import TPM2

extension TPMKeystore {
    /// The maximum number of handles to try. Another program may take a free handle first.
    private static let maximumPlaces = 4

    /// Writes the secret to the TPM's non-volatile memory.
    ///
    /// - Throws: `KeystoreError` with code `unsupported` if the TPM's owner has a password, the presence broker manages the PIN,
    ///   or the policy is neither `none` nor a PIN: the broker only approves the use of keys and sealed secrets.
    public func sealRevocably(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority,
        announcing announce: @Sendable (SealedSecret) async throws(KeystoreError) -> Void
    ) async throws(KeystoreError) -> SealedSecret {
        let operation = "seal a secret"
        guard secret.count == RevocableSecret.byteCount else {
            throw .invalidInput(operation, "it has \(secret.count) bytes and must have \(RevocableSecret.byteCount)")
        }
        try await checkRevocable(policy, operation, presence)
        let root = try await presentRoot(operation)
        return try await storeRevocably(secret, policy, under: root, prompt, operation, presence, announce)
    }

    /// Checks the conditions for a revocable key or secret, before any prompt.
    func checkRevocable(
        _ policy: AccessPolicy, _ operation: String, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) {
        try checkSupport(policy, operation)
        guard policy.fits(nil) else {
            throw .unsupported(
                operation, "a TPM can only revoke a key or secret with the policy ‘none’, or with a PIN for each use",
                recovery: "Use the policy ‘none’ or ‘pin’, or create it without revocation.")
        }
        if policy.hasPIN, let broker = presence.broker?.approvals, try await terms(of: broker, policy) != nil {
            throw .unsupported(
                operation, "the presence broker manages your PIN, which all your keys share",
                recovery: "Create it without revocation. A change of that PIN also affects all copies.")
        }
        guard try await visit(operation, { (tpm) throws(TPMError) in try !tpm.isOwnerPasswordSet() }) else {
            throw .unsupported(
                operation, "the TPM's owner has a password, and only the owner can create revocable keys and secrets",
                recovery: "Create it without revocation, or ask the owner to remove the password.")
        }
    }

    /// Stores a secret in a new index. Prompts for a new PIN if the policy has one.
    func storeRevocably(
        _ secret: SecretBytes, _ policy: AccessPolicy, under root: StorageRoot, _ prompt: PromptContext,
        _ operation: String, _ presence: any PresenceAuthority,
        _ announce: @Sendable (SealedSecret) async throws(KeystoreError) -> Void
    ) async throws(KeystoreError) -> SealedSecret {
        var place = try await freePlace(isContended: false, operation)
        let pin = policy.hasPIN ? try await newPIN(prompt, operation, presence) : nil
        let branch = PolicyDigest.random()
        let storedAuthValue = pin == nil ? PolicyDigest.random().bytes : nil
        for _ in 0..<Self.maximumPlaces {
            let planned = try plan(at: place, branch, storedAuthValue, under: root, operation)
            let sealed = SealedSecret(
                backend: backend, policy: policy, assurance: Self.assurance(of: policy, nil, under: root),
                isRevocable: true, blob: try serialized(planned, operation))
            try await announce(sealed)
            if try await define(planned, holding: secret, pin, under: root, operation) { return sealed }
            place = try await freePlace(isContended: true, operation)
        }
        throw .conflict(operation, "other programs took every free NV index of the TPM")
    }

    /// Removes the index. Succeeds only with an authenticated response that the index is gone, because an attacker on the bus can
    /// forge any other response. Throws `wrongDevice` for another TPM or a TPM that was cleared.
    public func revoke(_ secret: SealedSecret) async throws(KeystoreError) {
        let operation = "revoke a secret"
        guard secret.isRevocable else {
            throw .unsupported(
                operation, "it was not sealed revocably", recovery: "Delete every copy of the sealed secret.")
        }
        let revocable = try revocable(secret, operation)
        let root = try await root(named: revocable.parentName, operation)
        do {
            try await device.visit { (tpm) throws(TPMError) in try tpm.remove(revocable, under: root) }
        } catch {
            throw await explainResponse(error, root, hasPIN: false, operation)
        }
    }

    /// Opens a revocable secret: StartAuthSession and NV_Read. For a PIN, first checks that the index exists and how many attempts
    /// are left.
    func unsealRevocable(
        _ secret: SealedSecret, _ operation: String, _ prompt: PromptContext, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SecretBytes {
        let revocable = try revocable(secret, operation)
        let root = try await root(named: revocable.parentName, operation)
        guard secret.assurance == Self.assurance(of: secret.policy, nil, under: root) else {
            throw .damaged(operation, "its stored assurance ‘\(secret.assurance)’ does not match this TPM")
        }
        try await checkExisting([revocable], under: root, operation)
        let pin = revocable.hasPIN ? try await currentPIN(prompt, operation, presence) : nil
        do {
            let authValue = try revocable.authValue(pin)
            return try await device.visit { (tpm) throws(TPMError) in
                try tpm.readSecret(revocable, authValue, under: root)
            }
        } catch {
            throw await explainRevocable(error, revocable, root, operation)
        }
    }

    /// Checks before a PIN prompt that the indices with a PIN exist. Another index at the same handle would count this PIN as a
    /// wrong one. One command for each index.
    func checkExisting(
        _ secrets: [RevocableSecret], under root: StorageRoot, _ operation: String
    ) async throws(KeystoreError) {
        for secret in secrets where secret.hasPIN {
            var absence: TPMError?
            do {
                let isThere = try await device.visit { (tpm) throws(TPMError) in
                    try tpm.nvReadPublic(secret.index.handle).publicArea == secret.index.publicArea
                }
                guard !isThere else { continue }
            } catch {
                guard error.responseCode?.base == .handle else { throw KeystoreError(error, during: operation) }
                absence = error
            }
            guard try await !hasIndex(secret.index, under: root, operation) else {
                throw Self.forgedAbsence(operation, absence)
            }
            throw .revoked(operation, underlying: absence)
        }
    }

    /// Whether an index exists unchanged. The answer is authenticated.
    func hasIndex(
        _ index: NVIndex, under root: StorageRoot, _ operation: String
    ) async throws(KeystoreError) -> Bool {
        do {
            return try await device.visit { (tpm) throws(TPMError) in try tpm.hasIndex(index, under: root) }
        } catch {
            throw await explainResponse(error, root, hasPIN: false, operation)
        }
    }

    /// The error for an unauthenticated response that denies an index which the TPM proved to exist.
    static func forgedAbsence(_ operation: String, _ error: TPMError?) -> KeystoreError {
        KeystoreError(
            TPMError(
                .forged, command: error?.command ?? .nvReadPublic,
                reason: "it says that an index is missing, but the TPM proved that the index exists"),
            during: operation)
    }

    /// Lets the TPM check the PIN. Changes nothing.
    func confirm(
        _ pin: PIN, of secret: RevocableSecret, under root: StorageRoot, _ operation: String
    ) async throws(KeystoreError) {
        do {
            let authValue = try secret.authValue(pin)
            _ = try await device.visit { (tpm) throws(TPMError) in try tpm.readSecret(secret, authValue, under: root) }
        } catch {
            throw await explainRevocable(error, secret, root, operation)
        }
    }

    /// Changes the PIN in the TPM. The stored bytes stay the same, and the old PIN no longer works for any copy of them.
    func changeRevocablePIN(
        of secret: RevocableSecret, under root: StorageRoot, from old: PIN, to new: PIN, _ operation: String
    ) async throws(KeystoreError) {
        do {
            let (old, new) = (try secret.authValue(old), try secret.authValue(new))
            try await device.visit { (tpm) throws(TPMError) in
                try tpm.changeIndexPIN(of: secret.index, secret.branches, from: old, to: new, under: root)
            }
        } catch {
            throw await explainRevocable(error, secret, root, operation)
        }
    }

    /// Decodes a stored secret and compares it with the stored policy.
    func revocable(_ secret: SealedSecret, _ operation: String) throws(KeystoreError) -> RevocableSecret {
        guard secret.backend == backend else {
            throw .wrongDevice(operation, "it belongs to a keystore of the type ‘\(secret.backend)’")
        }
        let revocable: RevocableSecret
        do {
            revocable = try RevocableSecret(secret.blob)
        } catch {
            throw .damaged(operation, "its stored bytes cannot be decoded: \(error)")
        }
        guard secret.policy.fits(nil), secret.policy.hasPIN == revocable.hasPIN else {
            throw .damaged(operation, "its stored bytes do not match its policy")
        }
        return revocable
    }

    private func freePlace(isContended: Bool, _ operation: String) async throws(KeystoreError) -> TPMHandle {
        do {
            return try await device.visit { (tpm) throws(TPMError) in try tpm.freePlace(isContended: isContended) }
        } catch {
            throw await explainDefinition(error, operation)
        }
    }

    private func plan(
        at place: TPMHandle, _ branch: PolicyDigest, _ storedAuthValue: [UInt8]?, under root: StorageRoot,
        _ operation: String
    ) throws(KeystoreError) -> RevocableSecret {
        do {
            let area = RevocableSecret.unwritten(branch, hasPIN: storedAuthValue == nil, at: place)
            return try RevocableSecret(
                parentName: root.name, index: area.written, branch: branch, storedAuthValue: storedAuthValue)
        } catch {
            throw KeystoreError(error, during: operation)
        }
    }

    /// Defines the planned index.
    ///
    /// - Returns: Whether its handle was still free.
    private func define(
        _ planned: RevocableSecret, holding secret: SecretBytes, _ pin: PIN?, under root: StorageRoot,
        _ operation: String
    ) async throws(KeystoreError) -> Bool {
        do {
            let area = RevocableSecret.unwritten(planned.branch, hasPIN: planned.hasPIN, at: planned.index.handle)
            let authValue = try planned.authValue(pin)
            try await device.visit { (tpm) throws(TPMError) in
                try tpm.writeNewIndex(secret, in: area, authValue, under: root)
            }
            return true
        } catch {
            guard error.responseCode == .nvDefined else { throw await explainDefinition(error, operation) }
            return false
        }
    }

    /// Explains a failed definition of an index. A full TPM is reported as `unsupported`, since it can still create keys that are
    /// not revocable.
    private func explainDefinition(_ error: TPMError, _ operation: String) async -> KeystoreError {
        if error.responseCode == .lockout, let state = try? await lockoutState(operation) {
            return .lockedOut(operation, state.status, underlying: error)
        }
        guard error.responseCode == .nvSpace else { return KeystoreError(error, during: operation) }
        return KeystoreError(
            operation: operation, code: .unsupported,
            reason: "the TPM has no memory for another revocable key or secret",
            recovery: "Create it without revocation, or delete unused keys and secrets: see ‘latchkey doctor’.",
            underlying: .init(error))
    }

    private func serialized(_ secret: RevocableSecret, _ operation: String) throws(KeystoreError) -> Data {
        do {
            return try secret.serialized
        } catch {
            throw KeystoreError(
                operation: operation, code: .failed, reason: "it cannot be encoded: \(error)",
                recovery: "Report this as a bug in Latchkey.")
        }
    }

    /// Explains a failed read or PIN change. After a refused proof, checks in an audited session whether the index exists.
    func explainRevocable(
        _ error: TPMError, _ secret: RevocableSecret, _ root: StorageRoot, _ operation: String
    ) async -> KeystoreError {
        switch (error.command, error.responseCode?.base) {
        case (.nvRead, .handle), (.nvRead, .badAuth), (.nvRead, .authFail), (.nvChangeAuth, .handle),
            (.nvChangeAuth, .authFail), (.nvChangeAuth, .policyFail):
            do throws(KeystoreError) {
                guard try await hasIndex(secret.index, under: root, operation) else {
                    return .revoked(operation, underlying: error)
                }
                // The proven Name includes the policy.
                guard ![.handle, .policyFail].contains(error.responseCode?.base) else {
                    return Self.forgedAbsence(operation, error)
                }
                guard secret.hasPIN else { return Self.refusedIndex(operation, error) }
            } catch {
                return error
            }
        default: break
        }
        return await explainResponse(error, root, hasPIN: secret.hasPIN, operation)
    }

    /// The error for a refusal of the stored authValue. The refusal is an error response, which is not authenticated.
    private static func refusedIndex(_ operation: String, _ error: TPMError) -> KeystoreError {
        KeystoreError(
            operation: operation, code: .refused,
            reason: "the TPM refused the stored proof: another program replaced the index, or the refusal is forged",
            recovery: "Try again. If it fails again, delete the key or secret and create it again.",
            underlying: .init(error))
    }
}
