internal import FoundationEssentials
public import Latchkey
internal import TPM2

extension TPMKeystore {
    /// Changes the PIN. Returns keys and secrets without a PIN unchanged.
    ///
    /// The PIN that the presence broker manages, and those of revocable keys and secrets, are changed in the TPM: the old PIN no
    /// longer works for any copy. Copies of other keys and secrets stay valid with the old PIN, because the TPM keeps no list of
    /// them. Delete the old values.
    public func changePIN(
        of keys: [HardwareKey], secrets: [SealedSecret], for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> (keys: [HardwareKey], secrets: [SealedSecret]) {
        let operation = "change the PIN"
        var blobs: [TPMKeyBlob] = []
        var bindings: [KeyBinding?] = []
        var revocable: [RevocableSecret] = []
        for key in keys {
            let blob = try keyBlob(of: key, operation)
            if let kept = try authorization(of: key, blob, operation) {
                if kept.hasPIN { revocable.append(kept) }
            } else {
                blobs.append(blob)
                bindings.append(KeyBinding(key))
            }
        }
        for secret in secrets where !secret.isRevocable {
            blobs.append(
                try blob(secret.blob, kind: .sealed, policy: secret.policy, backend: secret.backend, operation))
            bindings.append(nil)
        }
        for secret in secrets where secret.isRevocable && secret.policy.hasPIN {
            revocable.append(try self.revocable(secret, operation))
        }
        let indices = Set(blobs.compactMap { $0.protection?.userPIN })
        let first = blobs.first { $0.pinSalt != nil || $0.protection?.userPIN != nil }
        guard let parentName = first?.parentName ?? revocable.first?.parentName else { return (keys, secrets) }
        let root = try await root(named: parentName, operation)
        for name in blobs.map(\.parentName) + revocable.map(\.parentName) where name != root.name {
            throw otherTPM(operation)
        }
        try await checkExisting(revocable, under: root, operation)
        let old = try await existingPIN(indices.first, prompt, operation, presence)
        let isCounted = !revocable.isEmpty || blobs.contains { $0.pinSalt != nil }
        let new = try await newPIN(isCounted: isCounted, prompt, operation, presence)
        let changed = try await rewrapAll(blobs, boundTo: bindings, under: root, from: old, to: new, operation)
        var serializedBlobs: [Data] = []
        for blob in changed { serializedBlobs.append(try serialized(blob, operation)) }
        // Changes in the TPM come last, after the old PIN was right for all objects.
        let isProven = blobs.contains { $0.pinSalt != nil }
        let unchanged = try await unchanged(revocable, from: old, to: new, isProven, under: root, operation)
        for index in indices {
            do throws(KeystoreError) {
                try await changeUserPIN(index, under: root, from: old, to: new, operation)
            } catch {
                guard error.code == .wrongProof, isProven || !unchanged.isEmpty else { throw error }
                try await changeUserPIN(index, under: root, from: new, to: new, operation)
            }
        }
        for secret in unchanged.reversed() {
            try await changeRevocablePIN(of: secret, under: root, from: old, to: new, operation)
        }
        var replacements = serializedBlobs[...]
        return (
            keys.map { $0.isRevocable ? $0 : $0.replacing(blob: replacements.removeFirst()) },
            secrets.map { $0.isRevocable ? $0 : $0.replacing(blob: replacements.removeFirst()) }
        )
    }

    /// Prompts for the current PIN with the attempts left.
    private func existingPIN(
        _ index: PresenceProtection.UserPIN?, _ prompt: PromptContext, _ operation: String,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> PIN {
        guard let index else { return try await currentPIN(prompt, operation, presence) }
        let status = try await userPINStatus(index, operation)
        guard !status.isLockedOut else { throw .userPINLocked(operation) }
        return try await askForCurrentPIN(status, prompt, operation, presence)
    }

    /// Returns the secrets that still have the old PIN. An earlier change may have been interrupted. Changes go from the last
    /// secret to the first, so after the first secret with the new PIN all others have it too. A wrong PIN is counted once.
    ///
    /// - Parameter isProven: Whether the old PIN was right for another object.
    private func unchanged(
        _ revocable: [RevocableSecret], from old: PIN, to new: PIN, _ isProven: Bool, under root: StorageRoot,
        _ operation: String
    ) async throws(KeystoreError) -> [RevocableSecret] {
        var unchanged: [RevocableSecret] = []
        for secret in revocable {
            do throws(KeystoreError) {
                try await confirm(old, of: secret, under: root, operation)
                unchanged.append(secret)
            } catch {
                // Trying the new PIN uses an attempt, but never the last one.
                guard error.code == .wrongProof, isProven || !unchanged.isEmpty, error.attemptsLeft ?? 2 > 1 else {
                    throw error
                }
                break
            }
        }
        for secret in revocable.dropFirst(unchanged.count) {
            try await confirm(new, of: secret, under: root, operation)
        }
        return unchanged
    }

    private func changeUserPIN(
        _ index: PresenceProtection.UserPIN, under root: StorageRoot, from old: PIN, to new: PIN, _ operation: String
    ) async throws(KeystoreError) {
        do {
            let (old, new) = (try index.authValue(old), try index.authValue(new))
            try await device.visit { (tpm) throws(TPMError) in
                try tpm.changeIndexPIN(of: index.index, index.branches, from: old, to: new, under: root)
            }
        } catch {
            guard error.command == .nvChangeAuth else { throw KeystoreError(error, during: operation) }
            throw await explainUserPIN(error, index, operation)
        }
    }

    /// Wraps each object with its own PIN again for a new PIN, and binds keys to their rows.
    ///
    /// - Parameter bindings: One for each blob, nil for a secret.
    func rewrapAll(
        _ blobs: [TPMKeyBlob], boundTo bindings: [KeyBinding?], under root: StorageRoot, from old: PIN, to new: PIN,
        _ operation: String
    ) async throws(KeystoreError) -> [TPMKeyBlob] {
        guard blobs.contains(where: { $0.pinSalt != nil }) else { return blobs }
        do {
            return try await device.visit { (tpm) throws(TPMError) in
                try tpm.withStorageRoot(root) { (parent) throws(TPMError) in
                    try tpm.withSession(.hmac, saltedTo: parent) { (session) throws(TPMError) in
                        var changed: [TPMKeyBlob] = []
                        for (blob, binding) in zip(blobs, bindings) {
                            changed.append(
                                try tpm.rewrapForPIN(blob, boundTo: binding, under: parent, from: old, to: new, session)
                            )
                        }
                        return changed
                    }
                }
            }
        } catch {
            throw await explainResponse(error, root, hasPIN: true, operation)
        }
    }
}

extension TPM {
    /// Wraps one object for the new PIN.
    fileprivate func rewrapForPIN(
        _ blob: TPMKeyBlob, boundTo binding: KeyBinding?, under parent: TPMObject, from old: PIN, to new: PIN,
        _ session: Session
    ) throws(TPMError) -> TPMKeyBlob {
        guard let oldSalt = blob.pinSalt else { return blob }
        let newSalt = PINHardening.randomSalt()
        let privatePart = try rewrap(
            blob, under: parent, from: try PINHardening.authValue(old, salt: oldSalt, boundTo: blob.binding),
            to: try PINHardening.authValue(new, salt: newSalt, boundTo: binding), session)
        return blob.replacing(privatePart: privatePart, pinSalt: newSalt, binding: binding)
    }

    /// Wraps one object with another authValue, and checks that the TPM loads the result.
    func rewrap(
        _ blob: TPMKeyBlob, under parent: TPMObject, from old: AuthValue, to new: AuthValue, _ session: Session
    ) throws(TPMError) -> PrivateBlob {
        let privatePart = try withLoaded(
            blob.key.privatePart, blob.key.publicArea, under: parent, authorizedBy: .continuing(session)
        ) { (object) throws(TPMError) in
            try objectChangeAuth(
                of: object, under: parent, to: new,
                authorizedBy: .continuing(session, authValue: old, protecting: .decrypt))
        }
        try withLoaded(
            privatePart, blob.key.publicArea, under: parent, authorizedBy: .continuing(session)
        ) { (_) throws(TPMError) in }
        return privatePart
    }
}
