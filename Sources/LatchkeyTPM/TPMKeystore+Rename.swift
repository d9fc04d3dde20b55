internal import FoundationEssentials
public import Latchkey
internal import TPM2

extension TPMKeystore {
    /// Changes the label of a key.
    ///
    /// The authorization of a key with its own PIN, and of a revocable key, depends on the label: the TPM wraps the key again,
    /// and `presence` prompts for the PIN. All other keys need no proof. Renaming a key of an earlier version also binds it to
    /// its row.
    public func rename(
        _ key: HardwareKey, to label: String?, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> HardwareKey {
        let operation = "rename a key"
        let blob = try keyBlob(of: key, operation)
        let root = try await root(named: blob.parentName, operation)
        try check(key.assurance, of: key.policy, blob, under: root, operation)
        let binding = KeyBinding(id: key.id, label: label)
        let renamed: TPMKeyBlob
        if let kept = try authorization(of: key, blob, operation) {
            renamed = try await rebindRevocable(blob, kept, to: binding, under: root, prompt, operation, presence)
        } else if blob.pinSalt != nil {
            let pin = try await currentPIN(prompt, operation, presence)
            renamed =
                try await rewrapAll([blob], boundTo: [binding], under: root, from: pin, to: pin, operation).first
                ?? blob
        } else {
            renamed = blob.replacing(privatePart: blob.key.privatePart, pinSalt: nil, binding: binding)
        }
        return key.replacing(blob: try serialized(renamed, operation), label: label)
    }

    /// Wraps a revocable key for another binding. The index with its secret does not change, so a crash leaves the old key or
    /// the new one.
    private func rebindRevocable(
        _ blob: TPMKeyBlob, _ kept: RevocableSecret, to binding: KeyBinding, under root: StorageRoot,
        _ prompt: PromptContext, _ operation: String, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> TPMKeyBlob {
        try await checkExisting([kept], under: root, operation)
        let pin = kept.hasPIN ? try await currentPIN(prompt, operation, presence) : nil
        do {
            let authValue = try kept.authValue(pin)
            let privatePart = try await device.visit { (tpm) throws(TPMError) in
                try tpm.rebind(blob, kept, authValue, to: binding, under: root)
            }
            return blob.replacing(privatePart: privatePart, pinSalt: nil, binding: binding)
        } catch {
            throw await explainRevocable(error, kept, root, operation)
        }
    }
}

extension TPM {
    /// Wraps the key with the authValue of the new binding: StartAuthSession, NV_Read, Load, ObjectChangeAuth, Load.
    fileprivate func rebind(
        _ blob: TPMKeyBlob, _ kept: RevocableSecret, _ authValue: AuthValue, to binding: KeyBinding,
        under root: StorageRoot
    ) throws(TPMError) -> PrivateBlob {
        try withStorageRoot(root) { (parent) throws(TPMError) in
            try withSession(.hmac, saltedTo: parent) { (session) throws(TPMError) in
                let secret = try nvRead(
                    kept.index, authorizedBy: .continuing(session, authValue: authValue, protecting: .encrypt)
                ) { bytes in SecretBytes(count: bytes.count) { $0.copyMemory(from: bytes) } }
                let (old, new) = try secret.withUnsafeBytes { (bytes) throws(TPMError) in
                    (
                        try PINHardening.authValue(ofSecret: bytes, boundTo: blob.binding),
                        try PINHardening.authValue(ofSecret: bytes, boundTo: binding)
                    )
                }
                return try rewrap(blob, under: parent, from: old, to: new, session)
            }
        }
    }
}
