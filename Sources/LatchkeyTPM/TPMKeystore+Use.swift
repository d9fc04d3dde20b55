internal import FoundationEssentials
internal import Latchkey
internal import TPM2

extension TPMKeystore {
    /// Reads a stored blob and holds it against what is said about it.
    func blob(
        _ bytes: Data, kind: TSS2PrivateKey.Kind, policy: AccessPolicy, backend: String, _ operation: String
    ) throws(KeystoreError) -> TPMKeyBlob {
        guard backend == self.backend else {
            throw .wrongDevice(operation, "it belongs to a keystore of the kind \(backend)")
        }
        try checkSupport(policy, operation)
        let blob: TPMKeyBlob
        do {
            blob = try TPMKeyBlob(bytes)
        } catch {
            throw .damaged(operation, "its stored bytes can't be read: \(error)")
        }
        let template =
            kind == .loadable
            ? KeyTemplates.signingKey(policy.requirement) : KeyTemplates.sealedData(policy.requirement)
        guard blob.key.kind == kind, blob.key.publicArea.isMade(from: template),
            (blob.pinSalt?.count == PINHardening.saltBytes) == (policy.requirement == .pin)
        else { throw .damaged(operation, "its stored bytes don't fit its policy") }
        return blob
    }

    /// What is said about the hardware must be what was pinned when it was made.
    func check(
        _ assurance: AssuranceLevel, of policy: AccessPolicy, under root: StorageRoot, _ operation: String
    ) throws(KeystoreError) {
        guard assurance == Self.assurance(of: policy, under: root) else {
            throw .damaged(operation, "its stored assurance ‘\(assurance)’ is not that of this TPM")
        }
    }

    static func assurance(of policy: AccessPolicy, under root: StorageRoot) -> AssuranceLevel {
        AssuranceLevel(root: root.assuranceRoot, presence: policy.requirement == .pin ? .pin : .none)
    }

    /// Loads an object and uses it once, in a session that is salted to the pinned storage root key: StartAuthSession,
    /// Load, the use, FlushContext. The use ends the session.
    ///
    /// Load is authorized by the session too, though its parent has no authValue: a TPM that does not hold the pinned
    /// key can't know the salt and fails there, before anything that is derived from a PIN is sent.
    func use<R: Sendable>(
        _ blob: TPMKeyBlob, under root: StorageRoot, _ operation: String,
        _ body: @Sendable (TPM, TPMObject, Session) throws(TPMError) -> R
    ) async throws(KeystoreError) -> R {
        do {
            return try await device.visit { (tpm) throws(TPMError) in
                try tpm.withStorageRoot(root) { (parent) throws(TPMError) in
                    try tpm.withSession(.hmac, saltedTo: parent) { (session) throws(TPMError) in
                        try tpm.withLoaded(
                            blob.key.privatePart, blob.key.publicArea, under: parent,
                            authorizedBy: .continuing(session)
                        ) { (object) throws(TPMError) in try body(tpm, object, session) }
                    }
                }
            }
        } catch {
            throw await explained(error, root, hasPIN: blob.pinSalt != nil, operation)
        }
    }

    /// What a failed use means. Reads from the TPM what its answer alone does not say.
    func explained(
        _ error: TPMError, _ root: StorageRoot, hasPIN: Bool, _ operation: String
    ) async -> KeystoreError {
        do {
            switch (error.command, error.responseCode?.base) {
            case (_, .lockout):
                return .lockedOut(operation, try await lockoutState(operation).status, underlying: error)
            case (.load, .integrity), (.load, .binding), (.load, .attributes), (.load, .size), (.load, .value),
                (.load, .type), (.load, .handle), (.load, .hash), (.load, .scheme), (.load, .key), (.load, .eccPoint):
                guard try await isPinned(root, operation) else { return otherTPM(operation, underlying: error) }
                return .damaged(operation, "the TPM does not accept its stored bytes", underlying: .init(error))
            case (.load, .badAuth), (.load, .authFail):
                guard try await isPinned(root, operation) else { return otherTPM(operation, underlying: error) }
                return KeystoreError(error, during: operation)
            case (.startAuthSession, .handle), (.startAuthSession, .value), (.startAuthSession, .key):
                guard try await isPinned(root, operation) else { return otherTPM(operation, underlying: error) }
                return KeystoreError(error, during: operation)
            case (_, .authFail), (_, .badAuth):
                guard hasPIN else { return KeystoreError(error, during: operation) }
                return .wrongPIN(operation, try await lockoutState(operation).status, underlying: error)
            default: return KeystoreError(error, during: operation)
            }
        } catch {
            return error
        }
    }
}
