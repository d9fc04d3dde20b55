internal import FoundationEssentials
public import Latchkey
internal import TPM2

extension TPMKeystore {
    /// Changes the label of a key.
    ///
    /// The authorization of a revocable key or a key with its own PIN depends on the label, so
    /// `presence` prompts for the PIN. The TPM wraps the key again, or changes the authValue of the
    /// index whose PIN opens it. All other keys need no proof.
    ///
    /// A change of the index affects all copies of the key. If the call was interrupted after it,
    /// another call with the same label finishes the change. To find this out, it tries a PIN that
    /// the TPM refused a second time with the new label, so a wrong PIN counts twice. The last
    /// attempt is never used for this.
    public func rename(
        _ key: HardwareKey, to label: String?, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> HardwareKey {
        do throws(KeystoreError) {
            try KeyRequest.check(label: label)
            let (blob, root) = try await checkedBlob(of: key)
            let binding = KeyBinding(id: key.id, label: label)
            var renamed = blob
            switch (try authorization(of: key, blob), blob.protection) {
            case (let kept?, .gate):
                try await rebindGate(kept, to: binding, prompt, presence, under: root)
            case (let kept?, _):
                renamed.key.privatePart = try await rebindRevocable(
                    blob, kept, to: binding, under: root)
            case (nil, .ownPIN):
                renamed = try await rebindPIN(blob, to: binding, under: root, prompt, presence)
            case (nil, _): break
            }
            renamed.origin?.binding = binding
            return key.replacing(blob: try serialized(renamed), label: label)
        } catch { throw error.during("rename a key") }
    }

    /// Wraps a key with a PIN for another binding.
    private func rebindPIN(
        _ blob: TPMKeyBlob, to binding: KeyBinding, under root: StorageRoot,
        _ prompt: PromptContext,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> TPMKeyBlob {
        try await checkHardware(of: root, before: presence)
        let pin = try await currentPIN(prompt, presence)
        let explain: Explanation = { await explainResponse($0, root, hasPIN: true) }
        return try await presence.reporting(pin) { () async throws(KeystoreError) in
            try await withTPM(explainedBy: explain) { (tpm) throws(TPMError) in
                try tpm.withSaltedSession(under: root) { (session, parent) throws(TPMError) in
                    try tpm.rewrapForPIN(
                        blob, boundTo: binding, under: parent, from: pin, to: pin, session)
                }
            }
        }
    }

    /// Changes the authValue of the index whose PIN opens the key.
    private func rebindGate(
        _ kept: RevocableSecret, to binding: KeyBinding, _ prompt: PromptContext,
        _ presence: any PresenceAuthority, under root: StorageRoot
    ) async throws(KeystoreError) {
        try await checkExisting([kept], under: root)
        let pin = try await currentPIN(prompt, presence)
        var renamed = kept
        renamed.binding = binding
        try await presence.reporting(pin) { [renamed] () async throws(KeystoreError) in
            do throws(KeystoreError) {
                try await changeAuthValue(of: kept, to: renamed, from: pin, to: pin, under: root)
            } catch {
                guard error.code == .wrongProof, error.attemptsLeft ?? 2 > 1 else { throw error }
                // An interrupted call may have changed it already.
                try await changeAuthValue(of: renamed, to: renamed, from: pin, to: pin, under: root)
            }
        }
    }

    /// Wraps a revocable key without a PIN for another binding. The index with its secret does not
    /// change, so a crash leaves the old key or the new one.
    private func rebindRevocable(
        _ blob: TPMKeyBlob, _ kept: RevocableSecret, to binding: KeyBinding,
        under root: StorageRoot
    ) async throws(KeystoreError) -> PrivateBlob {
        let explain: Explanation = { await explainRevocable($0, kept, root) }
        return try await withTPM(explainedBy: explain) { (tpm) throws(TPMError) in
            try tpm.rebind(blob, kept, to: binding, under: root)
        }
    }
}

extension TPM {
    /// Wraps the key with the authValue of the new binding: StartAuthSession, NV_Read, Load,
    /// ObjectChangeAuth, Load.
    fileprivate func rebind(
        _ blob: TPMKeyBlob, _ kept: RevocableSecret, to binding: KeyBinding,
        under root: StorageRoot
    ) throws(TPMError) -> PrivateBlob {
        try withSaltedSession(under: root) { (session, parent) throws(TPMError) in
            let secret = try execute(
                NVRead(kept.index),
                authorizedBy: .continuing(
                    session, authValue: try kept.authValue(nil), protecting: .encrypt))
            func authValue(_ binding: KeyBinding) throws(TPMError) -> AuthValue {
                try secret.withUnsafeBytes { bytes in
                    Result { () throws(TPMError) in
                        try PINHardening.authValue(ofSecret: bytes, boundTo: binding)
                    }
                }.get()
            }
            return try rewrap(
                blob, under: parent, from: try authValue(blob.binding ?? binding),
                to: try authValue(binding), session)
        }
    }
}
