internal import FoundationEssentials
public import Latchkey
internal import TPM2

/// Keys that need an NV index. The policy of a key with a PIN requires the PIN of the index. The
/// authValue of any other key is derived from 32 random bytes in the index, as in keys with a PIN
/// of earlier versions.
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
            try await checkRevocable(request.policy, presence)
            let root = try await presentRoot()
            let value =
                request.policy.hasPIN ? nil : SecretBytes.random(count: RevocableSecret.byteCount)
            let authorization = try await storeRevocably(
                value, request.policy,
                boundTo: value == nil ? KeyBinding(id: request.id, label: request.label) : nil,
                under: root,
                request.prompt, presence, willCreate)
            do throws(KeystoreError) {
                let kept = try revocable(authorization)
                let blob = try await makeKey(request, authorizedBy: value, kept, under: root)
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
        if kept.isGate { kept.binding = blob.binding }
        guard authorization.policy == key.policy, authorization.isRevocable,
            kept.parentName == blob.parentName,
            blob.protection?.userPIN?.index == (kept.isGate ? kept.index : nil)
        else {
            throw .damaged("the key's authorization belongs to another key")
        }
        return kept
    }

    /// - Parameter value: The secret in the index, or nil for a key whose policy requires the PIN
    ///   of the index.
    private func makeKey(
        _ request: KeyRequest, authorizedBy value: SecretBytes?, _ kept: RevocableSecret,
        under root: StorageRoot
    ) async throws(KeystoreError) -> TPMKeyBlob {
        let binding = KeyBinding(id: request.id, label: request.label)
        guard let value else {
            let (protection, template) = try KeystoreError.explaining { () throws(TPMError) in
                let protection = PresenceProtection(
                    finger: nil, userPIN: try kept.userPIN, authValue: nil, certifies: true)
                return (
                    protection,
                    try KeyTemplates.signingKey(request.policy, protection, request.form)
                )
            }
            let created = try await createObject(template, authValue: .empty, under: root)
            return TPMKeyBlob(created, under: root, protection: protection, binding: binding)
        }
        let authValue = try KeystoreError.explaining { () throws(TPMError) in
            try value.withUnsafeBytes { (bytes) throws(TPMError) in
                try PINHardening.authValue(ofSecret: bytes, boundTo: binding)
            }
        }
        let created = try await createObject(
            KeyTemplates.revocableKey(request.form), authValue: authValue, under: root)
        return TPMKeyBlob(created, under: root, binding: binding)
    }
}
