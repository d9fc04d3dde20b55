internal import FoundationEssentials
public import Latchkey
internal import TPM2

extension TPMKeystore {
    /// The maximum number of handles to try. Another program may take a free handle first.
    private static let maximumHandles = 4

    /// Writes the secret to the TPM's non-volatile memory.
    ///
    /// - Throws: `KeystoreError` with code `unsupported` if the TPM's owner has a password, the
    ///   presence broker manages the PIN, or the policy is neither `none` nor a PIN: the broker
    ///   only approves the use of keys and sealed secrets.
    public func sealRevocably(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority,
        willCreate: @Sendable (SealedSecret) async throws(KeystoreError) -> Void
    ) async throws(KeystoreError) -> SealedSecret {
        do throws(KeystoreError) {
            try RevocableSecret.checkCount(of: secret)
            try await checkRevocable(policy, presence)
            let root = try await presentRoot()
            return try await storeRevocably(
                secret, policy, under: root, prompt, presence, willCreate)
        } catch { throw error.during("seal a secret") }
    }

    /// Checks the conditions for a revocable key or secret, before any prompt.
    func checkRevocable(
        _ policy: AccessPolicy, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) {
        try checkSupport(policy)
        guard policy.permitsRevocation else {
            throw .unsupported(
                "a TPM can only revoke a key or secret with the policy ‘none’, or with a PIN for each use",
                recovery: "Use the policy ‘none’ or ‘pin’, or create it without revocation.")
        }
        if policy.hasPIN, let broker = presence.broker?.approvals,
            try await terms(of: broker, policy) != nil
        {
            throw .unsupported(
                "the presence broker manages your PIN, which all your keys share",
                recovery:
                    "Create it without revocation. A change of that PIN also affects all copies.")
        }
        guard try await withTPM({ (tpm) throws(TPMError) in try !tpm.isOwnerPasswordSet() }) else {
            throw .unsupported(
                "the TPM's owner has a password, and only the owner can create revocable keys and secrets",
                recovery: "Create it without revocation, or ask the owner to remove the password.")
        }
    }

    /// Stores a secret in a new index, or creates an index whose PIN opens a key. Prompts for a new
    /// PIN if the policy has one.
    ///
    /// - Parameters:
    ///   - secret: nil for an index whose PIN opens a key.
    ///   - binding: That of the key, if the PIN opens one.
    func storeRevocably(
        _ secret: SecretBytes?, _ policy: AccessPolicy, boundTo binding: KeyBinding? = nil,
        under root: StorageRoot,
        _ prompt: PromptContext, _ presence: any PresenceAuthority,
        _ willCreate: @Sendable (SealedSecret) async throws(KeystoreError) -> Void
    ) async throws(KeystoreError) -> SealedSecret {
        var handle = try await freeHandle(isContended: false)
        let pin = policy.hasPIN ? try await newPIN(prompt, presence) : nil
        let content: IndexContent = secret.map { .secret($0) } ?? .gate(OnceKey())
        let branch = try KeystoreError.explaining { () throws(TPMError) in try content.branch }
        let form: RevocableSecret.Form =
            switch (secret, pin) {
            case (nil, _): .gate
            case (_?, nil): .secret(authValue: PolicyDigest.random().bytes)
            case (_?, _?): .secretWithPIN
            }
        for _ in 0..<Self.maximumHandles {
            let area = RevocableSecret.unwritten(branch, form, at: handle)
            let planned = try KeystoreError.explaining { () throws(TPMError) in
                var planned = try RevocableSecret(
                    parentName: root.name, index: area.written, branch: branch, form: form)
                planned.binding = binding
                return planned
            }
            let sealed = SealedSecret(
                backend: backend, policy: policy,
                assurance: Self.assurance(of: policy, .secretIndex, under: root),
                isRevocable: true, blob: try serialized(planned))
            try await willCreate(sealed)
            if try await define(planned, area, holding: content, pin, under: root) {
                if pin != nil { presence.accepted() }
                return sealed
            }
            handle = try await freeHandle(isContended: true)
        }
        throw .conflict("other programs took every free NV index of the TPM")
    }

    /// Removes the index. Succeeds only with an authenticated response that the index is gone,
    /// because an attacker on the bus can forge any other response. Throws `wrongDevice` for
    /// another TPM or a TPM that was cleared.
    public func revoke(_ secret: SealedSecret) async throws(KeystoreError) {
        do throws(KeystoreError) {
            guard secret.isRevocable else {
                throw .unsupported(
                    "the secret is not revocable",
                    recovery: "Delete every copy of the sealed secret.")
            }
            let revocable = try revocable(secret)
            let root = try await root(named: revocable.parentName)
            let explain: Explanation = { await explainResponse($0, root, hasPIN: false) }
            try await withTPM(explainedBy: explain) { (tpm) throws(TPMError) in
                try tpm.remove(revocable, under: root)
            }
        } catch { throw error.during("revoke a secret") }
    }

    /// Opens a revocable secret: StartAuthSession and NV_Read. For a PIN, first checks that the
    /// index exists and how many attempts are left.
    func unsealRevocable(
        _ secret: SealedSecret, _ prompt: PromptContext, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SecretBytes {
        let revocable = try revocable(secret)
        guard revocable.form != .gate else {
            throw .damaged("the index opens a key, and contains no secret")
        }
        let root = try await root(named: revocable.parentName)
        try check(secret.assurance, of: secret.policy, .secretIndex, under: root)
        try await checkExisting([revocable], under: root)
        let pin = revocable.hasPIN ? try await currentPIN(prompt, presence) : nil
        return try await presence.reporting(pin) { () async throws(KeystoreError) in
            try await open(revocable, pin, under: root)
        }
    }

    /// Reads the secret from its index. The TPM checks the PIN.
    func open(
        _ secret: RevocableSecret, _ pin: PIN?, under root: StorageRoot
    ) async throws(KeystoreError) -> SecretBytes {
        let explain: Explanation = { await explainRevocable($0, secret, root) }
        return try await withTPM(explainedBy: explain) { (tpm) throws(TPMError) in
            try tpm.readSecret(secret, try secret.authValue(pin), under: root)
        }
    }

    /// Checks before a PIN prompt that the indices with a PIN exist. Another index at the same
    /// handle would count this PIN as a wrong one, in the count that all PINs of the TPM share. One
    /// command for each index.
    func checkExisting(
        _ secrets: [RevocableSecret], under root: StorageRoot
    ) async throws(KeystoreError) {
        for secret in secrets where secret.hasPIN {
            var absence: TPMError?
            do {
                let isThere = try await device.run { (tpm) throws(TPMError) in
                    try tpm.execute(NVReadPublic(secret.index.handle)).publicArea
                        == secret.index.publicArea
                }
                guard !isThere else { continue }
            } catch {
                guard error.responseCode?.base == .handle else { throw KeystoreError(error) }
                absence = error
            }
            guard try await !hasIndex(secret.index, under: root) else {
                throw Self.forgedAbsence(absence)
            }
            throw .revoked(underlying: absence)
        }
    }

    /// Whether an index exists unchanged. The answer is authenticated.
    func hasIndex(
        _ index: NVIndex, under root: StorageRoot
    ) async throws(KeystoreError) -> Bool {
        let explain: Explanation = { await explainResponse($0, root, hasPIN: false) }
        return try await withTPM(explainedBy: explain) { (tpm) throws(TPMError) in
            try tpm.hasIndex(index, under: root)
        }
    }

    /// The error for an unauthenticated response that denies an index which the TPM proved to
    /// exist.
    static func forgedAbsence(_ error: TPMError?) -> KeystoreError {
        KeystoreError(
            TPMError(
                .forged, command: error?.command ?? .nvReadPublic,
                reason: "it says that an index is missing, but the TPM proved that the index exists"
            ))
    }

    /// Changes the PIN in the TPM, or the key that the PIN opens. The old PIN or key no longer
    /// works for any copy.
    ///
    /// - Parameter changed: The same index, with another key or the same.
    func changeAuthValue(
        of secret: RevocableSecret, to changed: RevocableSecret, from old: PIN, to new: PIN,
        under root: StorageRoot
    ) async throws(KeystoreError) {
        let explain: Explanation = { await explainRevocable($0, secret, root) }
        try await withTPM(explainedBy: explain) { (tpm) throws(TPMError) in
            try tpm.changeIndexPIN(
                of: secret.index, secret.branches, from: secret.authValue(old),
                to: changed.authValue(new), under: root)
        }
    }

    /// Decodes a stored secret and compares it with the stored policy.
    func revocable(_ secret: SealedSecret) throws(KeystoreError) -> RevocableSecret {
        let revocable: RevocableSecret = try decoded(secret.blob, backend: secret.backend)
        guard secret.policy.permitsRevocation, secret.policy.hasPIN == revocable.hasPIN else {
            throw .damaged("the secret's stored bytes do not match its policy")
        }
        return revocable
    }

    private func freeHandle(isContended: Bool) async throws(KeystoreError) -> TPMHandle {
        try await withTPM(explainedBy: { await explainDefinition($0) }) { (tpm) throws(TPMError) in
            try tpm.freeHandle(isContended: isContended)
        }
    }

    /// Defines the planned index.
    ///
    /// - Returns: Whether its handle was still free.
    private func define(
        _ planned: RevocableSecret, _ area: NVPublicArea, holding content: IndexContent,
        _ pin: PIN?,
        under root: StorageRoot
    ) async throws(KeystoreError) -> Bool {
        try await withTPM(explainedBy: { await explainDefinition($0) }) { (tpm) throws(TPMError) in
            do throws(TPMError) {
                switch content {
                case .secret(let secret):
                    try tpm.writeNewIndex(secret, in: area, try planned.authValue(pin), under: root)
                case .gate(let key):
                    try tpm.writeNewGate(
                        planned, in: area, try planned.authValue(pin), by: key, under: root)
                }
                return true
            } catch {
                guard error.responseCode == .nvDefined else { throw error }
                return false
            }
        }
    }

    /// Explains a failed definition of an index. A full TPM is reported as `unsupported`, since it
    /// can still create keys that are not revocable.
    private func explainDefinition(_ error: TPMError) async -> KeystoreError {
        if error.responseCode == .lockout, let status = try? await lockoutStatus() {
            return .lockedOut(status, underlying: error)
        }
        // Later commands prove the authValue with which the index was just defined.
        if error.command != .nvDefineSpace,
            [.badAuth, .authFail].contains(error.responseCode?.base)
        {
            return KeystoreError(
                code: .unavailable,
                reason:
                    "the TPM refused the new index's proof: another program replaced the index, or the refusal is forged",
                recovery: "Stop other programs that use the TPM, and try again.",
                underlying: .init(error))
        }
        guard error.responseCode == .nvSpace else { return KeystoreError(error) }
        return KeystoreError(
            code: .unsupported, reason: "the TPM has no memory for another revocable key or secret",
            recovery: Recovery(
                "Create it without revocation, or delete unused keys and secrets.", .diagnose),
            underlying: .init(error))
    }

    /// Explains a failed read or PIN change. After a refused proof, checks in an audited session
    /// whether the index exists.
    func explainRevocable(
        _ error: TPMError, _ secret: RevocableSecret, _ root: StorageRoot
    ) async -> KeystoreError {
        switch (error.command, error.responseCode?.base) {
        case (.nvRead, .handle), (.nvRead, .badAuth), (.nvRead, .authFail),
            (.nvChangeAuth, .handle),
            (.nvChangeAuth, .authFail), (.nvChangeAuth, .policyFail), (.policySecret, .handle),
            (.policySecret, .badAuth), (.policySecret, .authFail), (.policyOR, .value):
            do throws(KeystoreError) {
                guard try await hasIndex(secret.index, under: root) else {
                    return .revoked(underlying: error)
                }
                // The proven Name includes the policy.
                guard ![.handle, .policyFail, .value].contains(error.responseCode?.base) else {
                    return Self.forgedAbsence(error)
                }
                guard secret.hasPIN else { return Self.refusedIndex(error) }
            } catch {
                return error
            }
        default: break
        }
        return await explainResponse(error, root, hasPIN: secret.hasPIN)
    }

    /// The error for a refusal of the stored authValue. The refusal is an error response, which is
    /// not authenticated.
    private static func refusedIndex(_ error: TPMError) -> KeystoreError {
        KeystoreError(
            code: .unavailable,
            reason:
                "the TPM refused the stored proof: another program replaced the index, or the refusal is forged",
            recovery: "Try again. If it fails again, delete the key or secret and create it again.",
            underlying: .init(error))
    }
}

extension AccessPolicy {
    /// Whether a key or secret with this policy can depend on an index of the TPM.
    fileprivate var permitsRevocation: Bool {
        [.none, .pin].contains(requirement) && reuseSeconds == 0
    }
}

/// The content of a new index.
private enum IndexContent: Sendable {
    /// A secret.
    case secret(SecretBytes)
    /// Nothing: the PIN of the index opens a key. The key authorizes the write.
    case gate(OnceKey)

    /// The first branch of the index's policy.
    var branch: PolicyDigest {
        get throws(TPMError) {
            switch self {
            case .secret: .random()
            case .gate(let key): try key.branch
            }
        }
    }
}
