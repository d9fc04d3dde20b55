internal import FoundationEssentials
public import Latchkey
internal import TPM2

extension TPMKeystore {
    /// Keys and secrets without a PIN come back as they are.
    ///
    /// A user's own PIN is changed in its place, and so is that of what is revocable: the old one is dead for every copy. A
    /// copy of any other old value with a PIN of its own goes on working with the old PIN: the TPM keeps no list. Delete
    /// the old values.
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
        try await checkStanding(revocable, under: root, operation)
        let old = try await standingPIN(indices.first, prompt, operation, presence)
        let isCounted = !revocable.isEmpty || blobs.contains { $0.pinSalt != nil }
        let new = try await newPIN(isCounted: isCounted, prompt, operation, presence)
        let changed = try await rewrap(blobs, boundTo: bindings, under: root, from: old, to: new, operation)
        var serializedBlobs: [Data] = []
        for blob in changed { serializedBlobs.append(try serialized(blob, operation)) }
        // What is changed in its place comes last, when the old PIN has been right for everything.
        let isProven = blobs.contains { $0.pinSalt != nil }
        let unchanged = try await unchanged(revocable, from: old, to: new, isProven, under: root, operation)
        for index in indices {
            do throws(KeystoreError) {
                try await change(index, under: root, from: old, to: new, operation)
            } catch {
                guard error.code == .wrongProof, isProven || !unchanged.isEmpty else { throw error }
                try await change(index, under: root, from: new, to: new, operation)
            }
        }
        for secret in unchanged.reversed() {
            try await changePIN(of: secret, under: root, from: old, to: new, operation)
        }
        var replacements = serializedBlobs[...]
        return (
            keys.map { $0.isRevocable ? $0 : $0.replacing(blob: replacements.removeFirst()) },
            secrets.map { $0.isRevocable ? $0 : $0.replacing(blob: replacements.removeFirst()) }
        )
    }

    /// Asks for the PIN that holds, and shows the count that it is up against.
    private func standingPIN(
        _ index: PresenceProtection.UserPIN?, _ prompt: PromptContext, _ operation: String,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> PIN {
        guard let index else { return try await currentPIN(prompt, operation, presence) }
        let status = try await status(of: index, operation)
        guard !status.isLockedOut else { throw .userPINLocked(operation) }
        return try await currentPIN(status, prompt, operation, presence)
    }

    /// Those that the old PIN opens. Among several a change may have been interrupted: they are changed from the last to
    /// the first, so the last ones may have the new PIN already, and the first that has it says so of all behind it. A
    /// wrong PIN counts once, however many there are.
    ///
    /// - Parameter isProven: Whether the old PIN was right for something else.
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
                // The new PIN is one more guess, and never the last one.
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

    private func change(
        _ index: PresenceProtection.UserPIN, under root: StorageRoot, from old: PIN, to new: PIN, _ operation: String
    ) async throws(KeystoreError) {
        do {
            let (old, new) = (try index.authValue(old), try index.authValue(new))
            try await device.visit { (tpm) throws(TPMError) in
                try tpm.changePIN(of: index.index, index.branches, from: old, to: new, under: root)
            }
        } catch {
            guard error.command == .nvChangeAuth else { throw KeystoreError(error, during: operation) }
            throw await explained(error, index, operation)
        }
    }

    /// Wraps each object that has its own PIN for a new one, and binds the keys.
    ///
    /// - Parameter bindings: One for each blob; nil for a secret.
    func rewrap(
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
                                try tpm.rewrap(blob, boundTo: binding, under: parent, from: old, to: new, session))
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

    /// Wraps one object for another authValue and sees that the TPM loads the result.
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
