internal import FoundationEssentials
public import Latchkey
internal import TPM2

/// Keys that need an NV index. The policy of a key with a PIN requires the PIN of the index. The
/// authValue of any other key is derived from 32 random bytes in the index.
///
/// A change of PIN changes the index, and deleting the key removes it. Both affect all copies of
/// the stored key.
extension TPMKeystore {
    /// Creates the index first, then the key: a key without its index cannot be used.
    ///
    /// - Throws: `KeystoreError` with code `unsupported` if the TPM's owner has a password, the TPM
    ///   has no memory, the policy is neither `none` nor a PIN, or the presence broker manages the
    ///   PIN.
    public func createRevocableKey(
        _ request: KeyRequest, authorizedBy presence: any PresenceAuthority,
        willCreate: @Sendable (SealedSecret) async throws(KeystoreError) -> Void
    ) async throws(KeystoreError) -> HardwareKey {
        do throws(KeystoreError) {
            try KeyRequest.check(label: request.label)
            try await checkRevocable(request.policy, presence)
            let root = try await presentRoot()
            let binding = KeyBinding(id: request.id, label: request.label)
            let value =
                request.policy.hasPIN ? nil : SecretBytes.random(count: RevocableSecret.byteCount)
            let authorization = try await storeRevocably(
                value, request.policy, boundTo: value == nil ? binding : nil, under: root,
                request.prompt, presence, willCreate)
            do throws(KeystoreError) {
                let blob = try await makeKey(
                    request, value, try revocable(authorization), boundTo: binding, under: root)
                return try hardwareKey(
                    blob, for: request, assurance: authorization.assurance,
                    authorization: authorization)
            } catch {
                try? await revoke(authorization)
                throw error
            }
        } catch { throw error.during("create a key") }
    }

    /// The index with the key's authValue, compared with the stored key. Nil for a key that is not
    /// revocable.
    func authorization(
        of key: HardwareKey, _ blob: TPMKeyBlob
    ) throws(KeystoreError) -> RevocableSecret? {
        guard let authorization = key.authorization else { return nil }
        var kept = try revocable(authorization)
        let isOfKey =
            switch (kept.form, blob.protection) {
            case (.gate, .gate(let pin)): pin.index == kept.index
            case (.secret, .secretIndex): true
            default: false
            }
        guard authorization.policy == key.policy, authorization.isRevocable,
            kept.parentName == blob.parentName, isOfKey
        else {
            throw .damaged("the key's authorization belongs to another key")
        }
        if kept.form == .gate { kept.binding = blob.binding }
        return kept
    }

    /// - Parameter value: The secret in the index, or nil for a key whose policy requires the PIN
    ///   of the index.
    private func makeKey(
        _ request: KeyRequest, _ value: SecretBytes?, _ kept: RevocableSecret,
        boundTo binding: KeyBinding, under root: StorageRoot
    ) async throws(KeystoreError) -> TPMKeyBlob {
        let (protection, authValue, template) = try KeystoreError.explaining {
            () throws(TPMError) in
            let protection: PresenceProtection =
                value == nil ? .gate(try kept.userPIN) : .secretIndex
            var authValue = AuthValue.empty
            if let value {
                authValue = try value.withUnsafeBytes { (bytes) throws(TPMError) in
                    try PINHardening.authValue(ofSecret: bytes, boundTo: binding)
                }
            }
            return (
                protection, authValue,
                try KeyTemplates.signingKey(request.policy, protection, request.form)
            )
        }
        let created = try await createObject(template, authValue: authValue, under: root)
        return TPMKeyBlob(created, protection, boundTo: binding, under: root)
    }
}
