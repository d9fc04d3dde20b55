public import Latchkey
internal import TPM2

extension TPMKeystore {
    /// Seals one half, and puts the other into the TPM's non-volatile memory; see ``RevocableHalf``.
    public func sealRevocably(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SealedSecret {
        let operation = "seal a secret"
        guard secret.count == Self.secretBytes else {
            throw .invalidInput(operation, "it has \(secret.count) bytes and must have \(Self.secretBytes)")
        }
        guard try await visit(operation, { (tpm) throws(TPMError) in try !tpm.isOwnerPasswordSet() }) else {
            throw Self.ownerDecides(operation)
        }
        let half = SecretBytes.random(count: RevocableHalf.byteCount)
        let sealed = secret.exclusiveOr(half)
        var made = try await make(.sealed, sealing: sealed, policy: policy, prompt, operation, presence)
        let root = try await root(of: made.blob, operation)
        do {
            made.blob.half = try await device.visit { (tpm) throws(TPMError) in
                try tpm.keep(half, for: sealed, under: root)
            }
        } catch {
            switch (error.command, error.responseCode?.base) {
            case (.nvDefineSpace, .badAuth), (.nvDefineSpace, .authFail): throw Self.ownerDecides(operation, error)
            default: throw KeystoreError(error, during: operation)
            }
        }
        return SealedSecret(
            backend: backend, policy: policy, assurance: made.assurance, isRevocable: true,
            blob: try serialized(made.blob, operation))
    }

    /// Removes the half that the TPM keeps. A TPM that is another one, or was cleared, is refused with `wrongDevice`.
    public func revoke(_ secret: SealedSecret) async throws(KeystoreError) {
        let operation = "take a secret back"
        let blob = try blob(secret.blob, kind: .sealed, policy: secret.policy, backend: secret.backend, operation)
        guard let half = blob.half else {
            throw .unsupported(
                operation, "it was not sealed so that it can be", recovery: "Delete every copy of the sealed secret.")
        }
        let root = try await root(of: blob, operation)
        let wasThere: Bool
        do {
            wasThere = try await device.visit { (tpm) throws(TPMError) in try tpm.remove(half, under: root) }
        } catch {
            throw await explained(error, root, hasPIN: false, operation)
        }
        if !wasThere, try await !isPinned(root, operation) { throw otherTPM(operation) }
    }

    /// Reads the half that the TPM keeps, in a session of its own.
    func read(_ half: RevocableHalf, _ sealed: SecretBytes, _ use: KeyUse) async throws(KeystoreError) -> SecretBytes {
        do {
            return try await device.visit { (tpm) throws(TPMError) in
                try tpm.withStorageRoot(use.root) { (parent) throws(TPMError) in
                    try tpm.withSession(.hmac, saltedTo: parent) { (session) throws(TPMError) in
                        try tpm.read(half, sealed, session)
                    }
                }
            }
        } catch {
            throw await explained(error, use)
        }
    }

    private static func ownerDecides(_ operation: String, _ underlying: TPMError? = nil) -> KeystoreError {
        KeystoreError(
            operation: operation, code: .unsupported,
            reason: "the TPM's owner has a password, and only the owner can make what can be taken back",
            recovery: "Seal it without that, or have the owner remove the password.",
            underlying: underlying.map(KeystoreError.Underlying.init))
    }
}
