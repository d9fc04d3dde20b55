internal import FoundationEssentials
public import Latchkey
internal import TPM2

extension TPMKeystore {
    public func createKey(
        _ request: KeyRequest, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> HardwareKey {
        do throws(KeystoreError) {
            try KeyRequest.check(label: request.label)
            let made = try await make(
                .signingKey(request.form, KeyBinding(id: request.id, label: request.label)),
                policy: request.policy, request.prompt, presence)
            return try hardwareKey(made.blob, for: request, assurance: made.assurance)
        } catch { throw error.during("create a key") }
    }

    public func sign(
        _ digest: MessageDigest, with key: HardwareKey, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> ECDSASignature {
        do throws(KeystoreError) {
            return try await device.operate { () async throws(KeystoreError) in
                let (blob, root) = try await checkedBlob(of: key)
                let use = try KeyUse(
                    signing: digest, with: blob, policy: key.policy, under: root, prompt: prompt,
                    authorization: try authorization(of: key, blob))
                return try Self.verified(
                    await perform(use, authorizedBy: presence), of: digest, by: key)
            }
        } catch { throw error.during("sign") }
    }

    /// Verifies a signature of the TPM.
    static func verified(
        _ answer: TPMSignature, of digest: MessageDigest, by key: HardwareKey
    ) throws(KeystoreError) -> ECDSASignature {
        guard let signature = ECDSASignature(answer), key.publicKey.isValid(signature, for: digest)
        else {
            throw KeystoreError(
                TPMError(.forged, command: .sign, reason: "the signature is not the key's"))
        }
        return signature
    }

    /// The new key that the caller stores.
    func hardwareKey(
        _ blob: TPMKeyBlob, for request: KeyRequest, assurance: AssuranceLevel,
        authorization: SealedSecret? = nil
    ) throws(KeystoreError) -> HardwareKey {
        HardwareKey(
            id: request.id, backend: backend, policy: request.policy, assurance: assurance,
            publicKey: try publicKey(of: blob.key.publicArea), label: request.label,
            createdAt: Date(),
            blob: try serialized(blob), authorization: authorization)
    }

    func publicKey(of publicArea: PublicArea) throws(KeystoreError) -> PublicKey {
        guard let point = publicArea.p256Point?.p256Representation else {
            throw .damaged("the stored key is not a P-256 key")
        }
        return try PublicKey(x963Representation: point)
    }

    /// Decodes the blob of a key and compares its public key, ID and label with those of the stored
    /// key.
    func keyBlob(of key: HardwareKey) throws(KeystoreError) -> TPMKeyBlob {
        try decodedKey.value(of: key) { () throws(KeystoreError) in try decodedBlob(of: key) }
    }

    private func decodedBlob(of key: HardwareKey) throws(KeystoreError) -> TPMKeyBlob {
        let blob = try blob(
            key.blob, .signingKey, policy: key.policy, backend: key.backend,
            isRevocable: key.isRevocable)
        guard
            blob.key.publicArea.p256Point?.p256Representation
                == Array(key.publicKey.x963Representation)
        else {
            throw .damaged("the key's public key does not match its stored bytes")
        }
        try KeyBinding.check(blob.binding, of: key)
        return blob
    }

    /// The same, after a comparison of the stored assurance with the pinned hardware.
    func checkedBlob(of key: HardwareKey) async throws(KeystoreError) -> (TPMKeyBlob, StorageRoot) {
        let blob = try keyBlob(of: key)
        let root = try await root(named: blob.parentName)
        try check(key.assurance, of: key.policy, blob.protection, under: root)
        return (blob, root)
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
    public func seal(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SealedSecret {
        do throws(KeystoreError) {
            try RevocableSecret.checkCount(of: secret)
            let made = try await make(.sealedData(secret), policy: policy, prompt, presence)
            return SealedSecret(
                backend: backend, policy: policy, assurance: made.assurance,
                blob: try serialized(made.blob))
        } catch { throw error.during("seal a secret") }
    }

    public func unseal(
        _ secret: SealedSecret, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SecretBytes {
        do throws(KeystoreError) {
            guard !secret.isRevocable else {
                return try await unsealRevocable(secret, prompt, presence)
            }
            let opened = try await device.operate { () async throws(KeystoreError) in
                let blob = try blob(secret)
                let root = try await root(named: blob.parentName)
                try check(secret.assurance, of: secret.policy, blob.protection, under: root)
                let use = KeyUse(
                    command: Unseal(try blob.reference), request: .unseal, blob: blob,
                    policy: secret.policy, root: root, prompt: prompt)
                return SecretBytes(try await perform(use, authorizedBy: presence))
            }
            guard opened.count == RevocableSecret.byteCount else {
                throw .damaged(
                    "the secret has \(opened.count) bytes and must have \(RevocableSecret.byteCount)"
                )
            }
            return opened
        } catch { throw error.during("open a sealed secret") }
    }
}

extension SecretBytes {
    /// Copies the TPM's bytes into locked memory.
    init(_ data: SensitiveData) {
        self = data.withUnsafeBytes { bytes in
            SecretBytes(count: bytes.count) { $0.copyMemory(from: bytes) }
        }
    }
}

extension TPMKeystore {
    /// A new object.
    enum NewObject: Sendable {
        case signingKey(KeyForm, KeyBinding)
        case macKey
        case sealedData(SecretBytes)
    }

    /// Creates a key or sealed secret: ReadPublic, the prompt, StartAuthSession, Create.
    func make(
        _ object: NewObject, policy: AccessPolicy, _ prompt: PromptContext,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> (blob: TPMKeyBlob, assurance: AssuranceLevel) {
        try checkSupport(policy)
        let root = try await presentRoot()
        let protection = try await protection(for: policy, under: root, prompt, presence)
        let pin = protection.pinSalt == nil ? nil : try await newPIN(prompt, presence)
        let (template, authValue) = try KeystoreError.explaining { () throws(TPMError) in
            (
                try object.template(policy, protection),
                try protection.authValue(pin, boundTo: object.binding)
            )
        }
        let created = try await createObject(
            template, authValue: authValue, sealing: object.secret, under: root)
        if pin != nil { presence.accepted() }
        let blob = TPMKeyBlob(
            created, protection, boundTo: object.binding,
            as: object.secret == nil ? .loadable : .sealed, under: root)
        return (blob, Self.assurance(of: policy, protection, under: root))
    }

    func serialized(_ structure: some StoredStructure) throws(KeystoreError) -> Data {
        do {
            return try structure.serialized
        } catch {
            throw KeystoreError(
                code: .failed, reason: "encoding failed: \(error)",
                recovery: "Report this as a bug in Latchkey.")
        }
    }

    /// Creates an object under the pinned storage root key, and compares the result with the
    /// template.
    ///
    /// The random outsideInfo makes the hash of the creation data, which a statement about the
    /// creation contains, different for each object. Otherwise it would be the same for all objects
    /// of a TPM, and two servers could link them.
    func createObject(
        _ template: PublicArea, authValue: AuthValue, sealing secret: SecretBytes? = nil,
        under root: StorageRoot
    ) async throws(KeystoreError) -> CreatedObject {
        let explain: Explanation = { await explainResponse($0, root, hasPIN: false) }
        return try await withTPM(explainedBy: explain) { (tpm) throws(TPMError) in
            let created = try tpm.withSaltedSession(under: root) {
                (session, parent) throws(TPMError) in
                try tpm.execute(
                    Create(
                        template, authValue: authValue,
                        sealing: secret?.withUnsafeBytes { SensitiveData($0) },
                        outsideInfo: PolicyDigest.random().bytes, under: parent),
                    authorizedBy: .lastUse(of: session, protecting: .decrypt))
            }
            guard created.publicArea.isMade(from: template),
                created.creationData.parentName == root.name
            else {
                throw TPMError(
                    .forged, command: .create,
                    reason: "the TPM created an object that does not match the template")
            }
            return created
        }
    }
}

extension TPMKeystore.NewObject {
    /// Nil for every object but a signing key.
    fileprivate var binding: KeyBinding? {
        if case .signingKey(_, let binding) = self { binding } else { nil }
    }

    fileprivate var secret: SecretBytes? {
        if case .sealedData(let secret) = self { secret } else { nil }
    }

    fileprivate func template(
        _ policy: AccessPolicy, _ protection: PresenceProtection
    ) throws(TPMError) -> PublicArea {
        switch self {
        case .signingKey(let form, _): try KeyTemplates.signingKey(policy, protection, form)
        case .macKey: try KeyTemplates.macKey(policy, protection)
        case .sealedData: try KeyTemplates.sealedData(policy, protection)
        }
    }
}

extension PresenceProtection {
    /// The authValue of the object: derived from its own PIN, a stored secret, or empty.
    func authValue(_ pin: PIN?, boundTo binding: KeyBinding?) throws(TPMError) -> AuthValue {
        if let pin, let pinSalt {
            return try PINHardening.authValue(pin, salt: pinSalt, boundTo: binding)
        }
        return ownAuthValue ?? .empty
    }
}
