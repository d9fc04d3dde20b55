internal import FoundationEssentials
internal import Latchkey
internal import TPM2

extension TPMKeystore {
    /// Makes an object: ReadPublic, the PIN, StartAuthSession, Create.
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
        let created = try await create(template, authValue: authValue, sealing: secret, under: root, operation)
        let blob = TPMKeyBlob(
            key: TSS2PrivateKey(
                kind: kind, hasEmptyAuth: policy.requirement == .none, parent: root.parentHandle,
                publicArea: created.publicArea, privatePart: created.privatePart),
            parentName: root.name, pinSalt: salt,
            birth: .init(hash: created.creationHash, ticket: created.creationTicket), protection: protection,
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
                operation: operation, code: .failed, reason: "it can't be written down: \(error)",
                recovery: "Report this as a fault of Latchkey.")
        }
    }

    /// Creates an object under the pinned storage root key, and sees that it is what was asked for.
    func create(
        _ template: PublicArea, authValue: AuthValue, sealing secret: SecretBytes?, under root: StorageRoot,
        _ operation: String
    ) async throws(KeystoreError) -> CreatedObject {
        do {
            return try await device.visit { (tpm) throws(TPMError) in
                let created = try tpm.withStorageRoot(root) { (parent) throws(TPMError) in
                    try tpm.withSession(.hmac, saltedTo: parent) { (session) throws(TPMError) in
                        try tpm.create(
                            template, authValue: authValue, sealing: secret, under: parent,
                            authorizedBy: .lastUse(of: session, protecting: .decrypt))
                    }
                }
                guard created.publicArea.isMade(from: template), created.creationData.parentName == root.name else {
                    throw TPMError(.forged, command: .create, reason: "the TPM made something else than was asked for")
                }
                return created
            }
        } catch {
            // The storage root key has no authValue, so only a session with another key's holder fails here.
            if error.command == .create, case .response(.badAuth) = error.kind {
                throw otherTPM(operation, underlying: error)
            }
            throw await explained(error, root, hasPIN: false, operation)
        }
    }
}

extension TPM {
    /// Lends the secret to the command, where there is one.
    fileprivate func create(
        _ template: PublicArea, authValue: AuthValue, sealing secret: SecretBytes?, under parent: TPMObject,
        authorizedBy authorization: Authorization
    ) throws(TPMError) -> CreatedObject {
        guard let secret else {
            return try create(template, authValue: authValue, under: parent, authorizedBy: authorization)
        }
        return try secret.withUnsafeBytes { (bytes) throws(TPMError) in
            try create(template, authValue: authValue, sealing: bytes, under: parent, authorizedBy: authorization)
        }
    }
}
