internal import FoundationEssentials
public import Latchkey
internal import TPM2

extension TPMKeystore {
    /// Keys and secrets without a PIN come back as they are.
    ///
    /// A copy of an old value goes on working with the old PIN: the TPM keeps no list. Delete the old values.
    public func changePIN(
        of keys: [HardwareKey], secrets: [SealedSecret], for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> (keys: [HardwareKey], secrets: [SealedSecret]) {
        let operation = "change the PIN"
        var blobs: [TPMKeyBlob] = []
        for key in keys { blobs.append(try keyBlob(of: key, operation)) }
        for secret in secrets {
            blobs.append(
                try blob(secret.blob, kind: .sealed, policy: secret.policy, backend: secret.backend, operation))
        }
        guard let first = blobs.first(where: { $0.pinSalt != nil }) else { return (keys, secrets) }
        let root = try await root(of: first, operation)
        for blob in blobs where blob.parentName != root.name { throw otherTPM(operation) }
        let old = try await currentPIN(prompt, operation, presence)
        let new = try await newPIN(prompt, operation, presence)
        let changed = try await rewrap(blobs, under: root, from: old, to: new, operation)
        var serializedBlobs: [Data] = []
        for blob in changed { serializedBlobs.append(try serialized(blob, operation)) }
        return (
            zip(keys, serializedBlobs).map { $0.replacing(blob: $1) },
            zip(secrets, serializedBlobs.dropFirst(keys.count)).map { $0.replacing(blob: $1) }
        )
    }

    private func rewrap(
        _ blobs: [TPMKeyBlob], under root: StorageRoot, from old: PIN, to new: PIN, _ operation: String
    ) async throws(KeystoreError) -> [TPMKeyBlob] {
        do {
            return try await device.visit { (tpm) throws(TPMError) in
                try tpm.withStorageRoot(root) { (parent) throws(TPMError) in
                    try tpm.withSession(.hmac, saltedTo: parent) { (session) throws(TPMError) in
                        var changed: [TPMKeyBlob] = []
                        for blob in blobs {
                            changed.append(try tpm.rewrap(blob, under: parent, from: old, to: new, session))
                        }
                        return changed
                    }
                }
            }
        } catch {
            throw await explained(error, root, hasPIN: true, operation)
        }
    }
}

extension TPM {
    /// Wraps one object for the new PIN and sees that the TPM loads the result.
    fileprivate func rewrap(
        _ blob: TPMKeyBlob, under parent: TPMObject, from old: PIN, to new: PIN, _ session: Session
    ) throws(TPMError) -> TPMKeyBlob {
        guard let oldSalt = blob.pinSalt else { return blob }
        let oldValue = try PINHardening.authValue(old, salt: oldSalt)
        let newSalt = PINHardening.randomSalt()
        let newValue = try PINHardening.authValue(new, salt: newSalt)
        let privatePart = try withLoaded(
            blob.key.privatePart, blob.key.publicArea, under: parent, authorizedBy: .continuing(session)
        ) { (object) throws(TPMError) in
            try objectChangeAuth(
                of: object, under: parent, to: newValue,
                authorizedBy: .continuing(session, authValue: oldValue, protecting: .decrypt))
        }
        try withLoaded(
            privatePart, blob.key.publicArea, under: parent, authorizedBy: .continuing(session)
        ) { (_) throws(TPMError) in }
        return blob.replacing(privatePart: privatePart, pinSalt: newSalt)
    }
}
