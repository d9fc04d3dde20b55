public import Latchkey
internal import TPM2

extension TPMKeystore {
    /// The number of bytes in a sealed secret.
    private static let secretBytes = 32

    public func seal(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SealedSecret {
        let operation = "seal a secret"
        guard secret.count == Self.secretBytes else {
            throw .invalidInput(operation, "it has \(secret.count) bytes and must have \(Self.secretBytes)")
        }
        let made = try await make(
            .sealed, sealing: secret, policy: policy, boundTo: nil, prompt, operation, presence)
        return SealedSecret(
            backend: backend, policy: policy, assurance: made.assurance, blob: try serialized(made.blob, operation))
    }

    public func unseal(
        _ secret: SealedSecret, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SecretBytes {
        let operation = "open a sealed secret"
        guard !secret.isRevocable else { return try await unsealRevocable(secret, operation, prompt, presence) }
        let blob = try blob(
            secret.blob, kind: .sealed, policy: secret.policy, backend: secret.backend, operation)
        let root = try await root(of: blob, operation)
        try check(secret.assurance, of: secret.policy, blob, under: root, operation)
        let use = KeyUse(
            blob: blob, policy: secret.policy, use: .unseal, root: root, prompt: prompt, operation: operation)
        let opened = try await perform(use, authorizedBy: presence) { (tpm, object, authorization) throws(TPMError) in
            try tpm.unseal(object, authorizedBy: authorization(.encrypt)) { bytes in
                SecretBytes(count: bytes.count) { $0.copyMemory(from: bytes) }
            }
        }
        guard opened.count == Self.secretBytes else {
            throw .damaged(operation, "it has \(opened.count) bytes and must have \(Self.secretBytes)")
        }
        return opened
    }
}
