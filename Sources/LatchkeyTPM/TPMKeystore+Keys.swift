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
        let root = try await root(named: blob.parentName, operation)
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

    /// Decodes the blob of a key and compares its public key, ID and label with those of the stored key.
    func keyBlob(of key: HardwareKey, _ operation: String) throws(KeystoreError) -> TPMKeyBlob {
        let blob = try blob(
            key.blob, kind: .loadable, policy: key.policy, backend: key.backend, isRevocable: key.isRevocable, operation
        )
        guard blob.key.publicArea.p256Point?.p256Representation == Array(key.publicKey.x963Representation) else {
            throw .damaged(operation, "its public key does not match its stored bytes")
        }
        try KeyBinding.check(blob.binding, of: key, operation)
        return blob
    }

    func publicKey(of publicArea: PublicArea, _ operation: String) throws(KeystoreError) -> PublicKey {
        guard let point = publicArea.p256Point?.p256Representation else {
            throw .damaged(operation, "the key in its stored bytes is not a P-256 key")
        }
        return try PublicKey(x963Representation: point)
    }
}

extension ECDSASignature {
    /// Converts a signature of the TPM.
    ///
    /// - Returns: nil unless it is ECDSA with SHA-256 and numbers of at most 32 bytes.
    init?(_ signature: TPMSignature) {
        guard case .ecdsa(.sha256, let r, let s) = signature else { return nil }
        self.init(r: r, s: s)
    }
}

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
        let root = try await root(named: blob.parentName, operation)
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

extension TPMKeystore {
    /// Creates a key or sealed secret: ReadPublic, the prompt, StartAuthSession, Create.
    func make(
        _ kind: TSS2PrivateKey.Kind, sealing secret: SecretBytes?, policy: AccessPolicy, boundTo binding: KeyBinding?,
        _ prompt: PromptContext, _ operation: String, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> (blob: TPMKeyBlob, assurance: AssuranceLevel) {
        try checkSupport(policy, operation)
        let root = try await presentRoot(operation)
        let protection = try await protection(for: policy, under: root, prompt, operation, presence)
        try checkSupport(policy, protection, operation)
        let hasPIN = policy.hasOwnPIN(protection)
        let pin = hasPIN ? try await newPIN(prompt, operation, presence) : nil
        let salt = hasPIN ? PINHardening.randomSalt() : nil
        let own = protection?.ownAuthValue
        let authValue = if let own { own } else { try authValue(pin, salt: salt, boundTo: binding, operation) }
        let template = try template(kind, policy, protection, operation)
        let created = try await createObject(template, authValue: authValue, sealing: secret, under: root, operation)
        let blob = TPMKeyBlob(
            key: TSS2PrivateKey(
                kind: kind, hasEmptyAuth: policy.requirement == .none, parent: root.parentHandle,
                publicArea: created.publicArea, privatePart: created.privatePart),
            parentName: root.name, pinSalt: salt,
            creation: .init(hash: created.creationHash, ticket: created.creationTicket), protection: protection,
            binding: binding)
        return (blob, Self.assurance(of: policy, protection, under: root))
    }

    func template(
        _ kind: TSS2PrivateKey.Kind, _ policy: AccessPolicy, _ protection: PresenceProtection?, _ operation: String
    ) throws(KeystoreError) -> PublicArea {
        do {
            return switch kind {
            case .loadable: try KeyTemplates.signingKey(policy, protection)
            case .sealed: try KeyTemplates.sealedData(policy, protection)
            }
        } catch {
            throw KeystoreError(error, during: operation)
        }
    }

    func serialized(_ blob: TPMKeyBlob, _ operation: String) throws(KeystoreError) -> Data {
        do {
            return try blob.serialized
        } catch {
            throw KeystoreError(
                operation: operation, code: .failed, reason: "it cannot be encoded: \(error)",
                recovery: "Report this as a bug in Latchkey.")
        }
    }

    /// Creates an object under the pinned storage root key, and compares the result with the template.
    func createObject(
        _ template: PublicArea, authValue: AuthValue, sealing secret: SecretBytes?, under root: StorageRoot,
        _ operation: String
    ) async throws(KeystoreError) -> CreatedObject {
        do {
            return try await device.visit { (tpm) throws(TPMError) in
                let created = try tpm.withStorageRoot(root) { (parent) throws(TPMError) in
                    try tpm.withSession(.hmac, saltedTo: parent) { (session) throws(TPMError) in
                        let authorization = Authorization.lastUse(of: session, protecting: .decrypt)
                        guard let secret else {
                            return try tpm.create(
                                template, authValue: authValue, under: parent, authorizedBy: authorization)
                        }
                        return try secret.withUnsafeBytes { (bytes) throws(TPMError) in
                            try tpm.create(
                                template, authValue: authValue, sealing: bytes, under: parent,
                                authorizedBy: authorization)
                        }
                    }
                }
                guard created.publicArea.isMade(from: template), created.creationData.parentName == root.name else {
                    throw TPMError(
                        .forged, command: .create, reason: "the TPM created an object that does not match the template")
                }
                return created
            }
        } catch {
            // The storage root key has no authValue, so only a session with a TPM that has another key fails here.
            if error.command == .create, case .response(.badAuth) = error.kind {
                throw otherTPM(operation, underlying: error)
            }
            throw await explainResponse(error, root, hasPIN: false, operation)
        }
    }
}
