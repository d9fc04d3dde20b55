internal import FoundationEssentials
public import Latchkey
internal import TPM2

extension TPMKeystore {
    public func createKey(
        _ request: KeyRequest, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> HardwareKey {
        let operation = "create a key"
        let made = try await make(
            .loadable, sealing: nil, policy: request.policy, boundTo: KeyBinding(id: request.id, label: request.label),
            request.prompt, operation, presence)
        return HardwareKey(
            id: request.id, backend: backend, policy: request.policy, assurance: made.assurance,
            publicKey: try publicKey(of: made.blob.key.publicArea, operation), label: request.label, createdAt: Date(),
            blob: try serialized(made.blob, operation))
    }

    public func sign(
        _ digest: MessageDigest, with key: HardwareKey, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> ECDSASignature {
        let operation = "sign"
        let blob = try keyBlob(of: key, operation)
        let root = try await root(of: blob, operation)
        try check(key.assurance, of: key.policy, blob, under: root, operation)
        let use = KeyUse(
            blob: blob, policy: key.policy, use: .sign(digest), root: root, prompt: prompt, operation: operation,
            authorization: try authorization(of: key, blob, operation))
        let answer = try await perform(use, authorizedBy: presence) { (tpm, object, authorization) throws(TPMError) in
            try tpm.sign(digest.bytes, with: object, authorizedBy: authorization([]))
        }
        guard let signature = ECDSASignature(answer), key.publicKey.isValid(signature, for: digest) else {
            throw KeystoreError(
                TPMError(.forged, command: .sign, reason: "the signature is not the key's"), during: operation)
        }
        return signature
    }

    /// The blob of a key, whose public half, ID and label are the ones that are stored next to it.
    func keyBlob(of key: HardwareKey, _ operation: String) throws(KeystoreError) -> TPMKeyBlob {
        let blob = try blob(
            key.blob, kind: .loadable, policy: key.policy, backend: key.backend, isRevocable: key.isRevocable, operation
        )
        guard blob.key.publicArea.p256Point?.p256Representation == Array(key.publicKey.x963Representation) else {
            throw .damaged(operation, "its public key is not that of its stored bytes")
        }
        try KeyBinding.check(blob.binding, of: key, operation)
        return blob
    }

    func publicKey(of publicArea: PublicArea, _ operation: String) throws(KeystoreError) -> PublicKey {
        guard let point = publicArea.p256Point?.p256Representation else {
            throw .damaged(operation, "the TPM made a key of another kind")
        }
        return try PublicKey(x963Representation: point)
    }
}

extension ECDSASignature {
    /// - Returns: nil unless it is ECDSA with SHA-256 and numbers of at most 32 bytes.
    init?(_ signature: TPMSignature) {
        guard case .ecdsa(.sha256, let r, let s) = signature else { return nil }
        self.init(r: r, s: s)
    }
}
