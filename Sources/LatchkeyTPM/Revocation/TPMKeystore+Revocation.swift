internal import FoundationEssentials
public import Latchkey
internal import TPM2

extension TPMKeystore {
    /// How often a place is chosen for a secret: another program may be faster to take it.
    private static let maximumPlaces = 4

    /// Puts the secret into the TPM's non-volatile memory; see `RevocableSecret`.
    ///
    /// - Throws: `KeystoreError`; `unsupported` where the TPM's owner has a password, where the presence broker keeps the
    ///   PIN, and for a policy that is neither `none` nor a PIN: the broker approves the use of keys and of sealed secrets
    ///   only.
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
        return try await keep(secret, policy, under: root, prompt, operation, presence, announce)
    }

    /// What can be known before anybody is asked.
    func checkRevocable(
        _ policy: AccessPolicy, _ operation: String, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) {
        try checkSupport(policy, operation)
        guard policy.fits(nil) else {
            throw .unsupported(
                operation, "a TPM can take back only what the device alone opens, or a PIN each time",
                recovery: "Use the policy ‘none’ or ‘pin’, or do it without that.")
        }
        if policy.hasPIN, let broker = presence.broker?.approvals, try await terms(of: broker, policy) != nil {
            throw .unsupported(
                operation, "the presence broker keeps your PIN, which is one for everything of yours",
                recovery: "Do it without that: a change of that PIN holds for every copy too.")
        }
        guard try await visit(operation, { (tpm) throws(TPMError) in try !tpm.isOwnerPasswordSet() }) else {
            throw .unsupported(
                operation, "the TPM's owner has a password, and only the owner can make what can be taken back",
                recovery: "Do it without that, or have the owner remove the password.")
        }
    }

    /// Puts a secret into an index of its own. Where the policy has a PIN, a new one is asked for.
    func keep(
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
            if try await keep(secret, as: planned, pin, under: root, operation) { return sealed }
            place = try await freePlace(isContended: true, operation)
        }
        throw .conflict(operation, "other programs took each place in the TPM that was free")
    }

    /// Removes the index. Succeeds only with the TPM's proof that the index is gone: an answer without proof, which an
    /// attacker on the bus can forge, is an error. A TPM that is another one, or was cleared, is refused with
    /// `wrongDevice`.
    public func revoke(_ secret: SealedSecret) async throws(KeystoreError) {
        let operation = "revoke a secret"
        guard secret.isRevocable else {
            throw .unsupported(
                operation, "it was not sealed so that it can be", recovery: "Delete every copy of the sealed secret.")
        }
        let revocable = try revocable(secret, operation)
        let root = try await root(named: revocable.parentName, operation)
        do {
            try await device.visit { (tpm) throws(TPMError) in try tpm.remove(revocable, under: root) }
        } catch {
            throw await explained(error, root, hasPIN: false, operation)
        }
    }

    /// Opens a secret that was sealed revocably: StartAuthSession and NV_Read, and before a PIN is asked for, whether it is
    /// there and how many are left.
    func unsealRevocable(
        _ secret: SealedSecret, _ operation: String, _ prompt: PromptContext, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SecretBytes {
        let revocable = try revocable(secret, operation)
        let root = try await root(named: revocable.parentName, operation)
        guard secret.assurance == Self.assurance(of: secret.policy, nil, under: root) else {
            throw .damaged(operation, "its stored assurance ‘\(secret.assurance)’ is not that of this TPM")
        }
        try await checkStanding([revocable], under: root, operation)
        let pin = revocable.hasPIN ? try await currentPIN(prompt, operation, presence) : nil
        do {
            let authValue = try revocable.authValue(pin)
            return try await device.visit { (tpm) throws(TPMError) in
                try tpm.read(revocable, authValue, under: root)
            }
        } catch {
            throw await explained(error, revocable, root, operation)
        }
    }

    /// Sees, before a PIN is asked for, that those with a PIN are there: another index that has come to the same place would
    /// count the right PIN of this one as a wrong one of its own. One command for each.
    func checkStanding(
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
            throw .takenBack(operation, underlying: absence)
        }
    }

    /// Whether an index is there as it was made, with the TPM's proof of the answer.
    func hasIndex(
        _ index: NVIndex, under root: StorageRoot, _ operation: String
    ) async throws(KeystoreError) -> Bool {
        do {
            return try await device.visit { (tpm) throws(TPMError) in try tpm.hasIndex(index, under: root) }
        } catch {
            throw await explained(error, root, hasPIN: false, operation)
        }
    }

    /// The TPM's proof says that an index is there, and an answer without proof said that it is not.
    static func forgedAbsence(_ operation: String, _ error: TPMError?) -> KeystoreError {
        KeystoreError(
            TPMError(
                .forged, command: error?.command ?? .nvReadPublic,
                reason: "it says that an index is missing, but the TPM proves that the index exists"),
            during: operation)
    }

    /// Has the TPM check the PIN, and changes nothing.
    func confirm(
        _ pin: PIN, of secret: RevocableSecret, under root: StorageRoot, _ operation: String
    ) async throws(KeystoreError) {
        do {
            let authValue = try secret.authValue(pin)
            _ = try await device.visit { (tpm) throws(TPMError) in try tpm.read(secret, authValue, under: root) }
        } catch {
            throw await explained(error, secret, root, operation)
        }
    }

    /// Changes the PIN in its place: the old one is dead for every copy of the stored bytes, which stay what they are.
    func changePIN(
        of secret: RevocableSecret, under root: StorageRoot, from old: PIN, to new: PIN, _ operation: String
    ) async throws(KeystoreError) {
        do {
            let (old, new) = (try secret.authValue(old), try secret.authValue(new))
            try await device.visit { (tpm) throws(TPMError) in
                try tpm.changePIN(of: secret.index, secret.branches, from: old, to: new, under: root)
            }
        } catch {
            throw await explained(error, secret, root, operation)
        }
    }

    /// Reads what is stored of a secret and holds it against what is said about it.
    func revocable(_ secret: SealedSecret, _ operation: String) throws(KeystoreError) -> RevocableSecret {
        guard secret.backend == backend else {
            throw .wrongDevice(operation, "it belongs to a keystore of the kind \(secret.backend)")
        }
        let revocable: RevocableSecret
        do {
            revocable = try RevocableSecret(secret.blob)
        } catch {
            throw .damaged(operation, "its stored bytes can't be read: \(error)")
        }
        guard secret.policy.fits(nil), secret.policy.hasPIN == revocable.hasPIN else {
            throw .damaged(operation, "its stored bytes don't fit its policy")
        }
        return revocable
    }

    private func freePlace(isContended: Bool, _ operation: String) async throws(KeystoreError) -> TPMHandle {
        do {
            return try await device.visit { (tpm) throws(TPMError) in try tpm.freePlace(isContended: isContended) }
        } catch {
            throw await explainedMaking(error, operation)
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

    /// - Returns: Whether its place was still free.
    private func keep(
        _ secret: SecretBytes, as planned: RevocableSecret, _ pin: PIN?, under root: StorageRoot, _ operation: String
    ) async throws(KeystoreError) -> Bool {
        do {
            let area = RevocableSecret.unwritten(planned.branch, hasPIN: planned.hasPIN, at: planned.index.handle)
            let authValue = try planned.authValue(pin)
            try await device.visit { (tpm) throws(TPMError) in
                try tpm.keep(secret, in: area, authValue, under: root)
            }
            return true
        } catch {
            guard error.responseCode == .nvDefined else { throw await explainedMaking(error, operation) }
            return false
        }
    }

    /// A TPM that has no room still makes what can't be taken back.
    private func explainedMaking(_ error: TPMError, _ operation: String) async -> KeystoreError {
        if error.responseCode == .lockout, let state = try? await lockoutState(operation) {
            return .lockedOut(operation, state.status, underlying: error)
        }
        guard error.responseCode == .nvSpace else { return KeystoreError(error, during: operation) }
        return KeystoreError(
            operation: operation, code: .unsupported,
            reason: "the TPM has no room for anything else that can be taken back",
            recovery: "Do it without that, or delete what nobody needs: see ‘latchkey doctor’.",
            underlying: .init(error))
    }

    private func serialized(_ secret: RevocableSecret, _ operation: String) throws(KeystoreError) -> Data {
        do {
            return try secret.serialized
        } catch {
            throw KeystoreError(
                operation: operation, code: .failed, reason: "it can't be written down: \(error)",
                recovery: "Report this as a fault of Latchkey.")
        }
    }

    /// Explains a failed reading or change of PIN. Where the TPM refuses the proof, has it prove whether the index is
    /// there.
    func explained(
        _ error: TPMError, _ secret: RevocableSecret, _ root: StorageRoot, _ operation: String
    ) async -> KeystoreError {
        switch (error.command, error.responseCode?.base) {
        case (.nvRead, .handle), (.nvRead, .badAuth), (.nvRead, .authFail), (.nvChangeAuth, .handle),
            (.nvChangeAuth, .authFail), (.nvChangeAuth, .policyFail):
            do throws(KeystoreError) {
                guard try await hasIndex(secret.index, under: root, operation) else {
                    return .takenBack(operation, underlying: error)
                }
                // The Name that was proven has the policy too.
                guard ![.handle, .policyFail].contains(error.responseCode?.base) else {
                    return Self.forgedAbsence(operation, error)
                }
                guard secret.hasPIN else { return Self.refusedIndex(operation, error) }
            } catch {
                return error
            }
        default: break
        }
        return await explained(error, root, hasPIN: secret.hasPIN, operation)
    }

    /// Only an error response refuses a stored proof, and that carries no proof of the TPM's.
    private static func refusedIndex(_ operation: String, _ error: TPMError) -> KeystoreError {
        KeystoreError(
            operation: operation, code: .refused,
            reason: "the TPM refused the stored proof: another program replaced the index, or the refusal is forged",
            recovery: "Try again. If it fails again, delete the key or secret and create it again.",
            underlying: .init(error))
    }
}
