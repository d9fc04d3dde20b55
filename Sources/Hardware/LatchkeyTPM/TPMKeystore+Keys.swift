internal import FoundationEssentials
public import Latchkey
internal import TPM2

extension TPMKeystore {
    public func createKey(
        _ request: KeyRequest, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> HardwareKey {
        do throws(KeystoreError) {
            let made = try await make(
                .loadable, sealing: nil, policy: request.policy,
                boundTo: KeyBinding(id: request.id, label: request.label), form: request.form,
                request.prompt, presence)
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
                let use = KeyUse(
                    blob: blob, policy: key.policy,
                    use: blob.scheme == .null ? .sign(digest) : .signNamingScheme(digest),
                    root: root, prompt: prompt,
                    authorization: try authorization(of: key, blob))
                let signature = try await perform(
                    use, authorizedBy: presence, Self.signing(digest, with: key, blob.scheme))
                guard let signature else {
                    throw KeystoreError(
                        TPMError(.forged, command: .sign, reason: "the signature is not the key's"))
                }
                return signature
            }
        } catch { throw error.during("sign") }
    }

    /// Signs, and verifies the signature. The result is nil if the verification fails.
    static func signing(
        _ digest: MessageDigest, with key: HardwareKey, _ scheme: Scheme
    ) -> UseBody<TPMSignature, ECDSASignature?> {
        UseBody { (tpm, object, authorization) throws(TPMError) in
            try tpm.sign(
                digest.bytes, with: object, scheme: scheme, authorizedBy: authorization([]))
        } result: { answer in
            guard let signature = ECDSASignature(answer),
                key.publicKey.isValid(signature, for: digest)
            else {
                return nil
            }
            return signature
        }
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
            key.blob, kind: .loadable, policy: key.policy, backend: key.backend,
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
            let made = try await make(
                .sealed, sealing: secret, policy: policy, boundTo: nil, prompt, presence)
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
                    blob: blob, policy: secret.policy, use: .unseal, root: root, prompt: prompt)
                let unsealing = UseBody { (tpm, object, authorization) throws(TPMError) in
                    try tpm.unseal(object, authorizedBy: authorization(.encrypt)) {
                        SecretBytes(copying: $0)
                    }
                } result: {
                    $0
                }
                return try await perform(use, authorizedBy: presence, unsealing)
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
    init(copying bytes: UnsafeRawBufferPointer) {
        self.init(count: bytes.count) { $0.copyMemory(from: bytes) }
    }
}

extension TPMKeystore {
    /// Creates a key or sealed secret: ReadPublic, the prompt, StartAuthSession, Create.
    func make(
        _ kind: TSS2PrivateKey.Kind, sealing secret: SecretBytes?, policy: AccessPolicy,
        boundTo binding: KeyBinding?,
        form: KeyForm = .fixedScheme, _ prompt: PromptContext, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> (blob: TPMKeyBlob, assurance: AssuranceLevel) {
        try checkSupport(policy)
        let root = try await presentRoot()
        let protection = try await protection(
            for: policy, certifies: kind == .loadable, under: root, prompt, presence)
        guard policy.fits(protection) else {
            throw .unsupported(
                "a TPM cannot reuse the proof of a key's own PIN",
                recovery: "Omit the reuse time, or use a policy with a fingerprint only.")
        }
        let pin = policy.hasOwnPIN(protection) ? try await newPIN(prompt, presence) : nil
        let salt = pin == nil ? nil : PINHardening.randomSalt()
        let authValue = try KeystoreError.explaining { () throws(TPMError) in
            if let own = protection?.ownAuthValue { return own }
            return try PINHardening.ownAuthValue(pin, salt: salt, boundTo: binding)
        }
        let created = try await createObject(
            try template(kind, policy, protection, form), authValue: authValue, sealing: secret,
            under: root)
        if pin != nil { presence.accepted() }
        let blob = TPMKeyBlob(
            created, kind, hasEmptyAuth: policy.requirement == .none, under: root, pinSalt: salt,
            protection: protection, binding: binding)
        return (blob, Self.assurance(of: policy, protection, under: root))
    }

    func template(
        _ kind: TSS2PrivateKey.Kind, _ policy: AccessPolicy, _ protection: PresenceProtection?,
        _ form: KeyForm
    ) throws(KeystoreError) -> PublicArea {
        try KeystoreError.explaining { () throws(TPMError) in
            switch kind {
            case .loadable: try KeyTemplates.signingKey(policy, protection, form)
            case .sealed: try KeyTemplates.sealedData(policy, protection)
            }
        }
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
    func createObject(
        _ template: PublicArea, authValue: AuthValue, sealing secret: SecretBytes? = nil,
        under root: StorageRoot
    ) async throws(KeystoreError) -> CreatedObject {
        let explain: Explanation = { error in
            // The storage root key has no authValue, so badAuth means that the TPM has another
            // storage root key.
            if error.command == .create, case .response(.badAuth) = error.kind {
                return Self.otherTPM(underlying: error)
            }
            return await explainResponse(error, root, hasPIN: false)
        }
        return try await withTPM(explainedBy: explain) { (tpm) throws(TPMError) in
            let created = try tpm.withSaltedSession(under: root) {
                (session, parent) throws(TPMError) in
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
