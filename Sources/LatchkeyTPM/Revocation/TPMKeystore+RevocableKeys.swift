internal import FoundationEssentials
public import Latchkey
internal import TPM2

/// Keys whose authValue is derived from 32 random bytes in an NV index. The PIN authorizes reading the index.
///
/// A change of PIN changes the index, and deleting the key removes it. Both affect all copies of the stored key.
extension TPMKeystore {
    /// Creates the index first, then the key: a key without its index cannot be used.
    ///
    /// - Throws: `KeystoreError` with code `unsupported` if the TPM's owner has a password, the TPM has no memory, the policy is
    ///   neither `none` nor a PIN, or the presence broker manages the PIN.
    public func createRevocableKey(
        _ request: KeyRequest, authorizedBy presence: any PresenceAuthority,
        announcing announce: @Sendable (SealedSecret) async throws(KeystoreError) -> Void
    ) async throws(KeystoreError) -> HardwareKey {
        let operation = "create a key"
        try await checkRevocable(request.policy, operation, presence)
        let root = try await presentRoot(operation)
        let value = SecretBytes.random(count: RevocableSecret.byteCount)
        let authorization = try await storeRevocably(
            value, request.policy, under: root, request.prompt, operation, presence, announce)
        do throws(KeystoreError) {
            let binding = KeyBinding(id: request.id, label: request.label)
            let blob = try await makeKey(authorizedBy: value, boundTo: binding, under: root, operation)
            return HardwareKey(
                id: request.id, backend: backend, policy: request.policy, assurance: authorization.assurance,
                publicKey: try publicKey(of: blob.key.publicArea, operation), label: request.label, createdAt: Date(),
                blob: try serialized(blob, operation), authorization: authorization)
        } catch {
            try? await revoke(authorization)
            throw error
        }
    }

    /// The index with the key's authValue, compared with the stored key. Nil for a key that is not revocable.
    func authorization(
        of key: HardwareKey, _ blob: TPMKeyBlob, _ operation: String
    ) throws(KeystoreError) -> RevocableSecret? {
        guard let authorization = key.authorization else { return nil }
        let kept = try revocable(authorization, operation)
        guard authorization.policy == key.policy, authorization.isRevocable, kept.parentName == blob.parentName else {
            throw .damaged(operation, "its authorization belongs to another key")
        }
        return kept
    }

    /// Explains a failed use of a revocable key.
    func explainRevocableUse(_ error: TPMError, _ use: KeyUse, _ kept: RevocableSecret) async -> KeystoreError {
        switch (error.command, error.responseCode?.base) {
        case (.sign, .badAuth), (.sign, .authFail):
            .damaged(use.operation, "its authorization belongs to another key", underlying: .init(error))
        default: await explainRevocable(error, kept, use.root, use.operation)
        }
    }

    private func makeKey(
        authorizedBy value: SecretBytes, boundTo binding: KeyBinding, under root: StorageRoot, _ operation: String
    ) async throws(KeystoreError) -> TPMKeyBlob {
        let authValue: AuthValue
        do {
            authValue = try value.withUnsafeBytes { (bytes) throws(TPMError) in
                try PINHardening.authValue(ofSecret: bytes, boundTo: binding)
            }
        } catch {
            throw KeystoreError(error, during: operation)
        }
        let created = try await createObject(
            KeyTemplates.revocableKey, authValue: authValue, sealing: nil, under: root, operation)
        return TPMKeyBlob(
            key: TSS2PrivateKey(
                kind: .loadable, hasEmptyAuth: false, parent: root.parentHandle, publicArea: created.publicArea,
                privatePart: created.privatePart),
            parentName: root.name, pinSalt: nil,
            creation: .init(hash: created.creationHash, ticket: created.creationTicket), binding: binding)
    }
}
