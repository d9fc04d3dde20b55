internal import FoundationEssentials
public import Latchkey
internal import TPM2

extension TPMKeystore {
    /// Changes the PIN. Returns keys and secrets without a PIN unchanged.
    ///
    /// The PIN that the presence broker manages, and those of revocable keys and secrets, are
    /// changed in the TPM: the old PIN no longer works for any copy. Copies of other keys and
    /// secrets stay valid with the old PIN, because the TPM keeps no list of them. Delete the old
    /// values.
    public func changePIN(
        of keys: [HardwareKey], secrets: [SealedSecret], for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> (keys: [HardwareKey], secrets: [SealedSecret]) {
        do throws(KeystoreError) {
            return try await change(keys, secrets, prompt, presence)
        } catch { throw error.during("change the PIN") }
    }

    private func change(
        _ keys: [HardwareKey], _ secrets: [SealedSecret], _ prompt: PromptContext,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> (keys: [HardwareKey], secrets: [SealedSecret]) {
        var blobs: [TPMKeyBlob] = []
        var revocable: [RevocableSecret] = []
        for key in keys {
            let blob = try keyBlob(of: key)
            if let kept = try authorization(of: key, blob) {
                if kept.hasPIN { revocable.append(kept) }
            } else {
                blobs.append(blob)
            }
        }
        for secret in secrets where !secret.isRevocable { blobs.append(try blob(secret)) }
        for secret in secrets where secret.isRevocable && secret.policy.hasPIN {
            revocable.append(try self.revocable(secret))
        }
        let indices = Set(blobs.compactMap(\.protection.brokerPIN))
        let first = blobs.first {
            $0.protection.pinSalt != nil || $0.protection.brokerPIN != nil
        }
        guard let parentName = first?.parentName ?? revocable.first?.parentName else {
            return (keys, secrets)
        }
        let root = try await root(named: parentName)
        guard
            (blobs.map(\.parentName) + revocable.map(\.parentName)).allSatisfy({ $0 == root.name })
        else {
            throw Self.otherTPM()
        }
        try await checkExisting(revocable, under: root)
        if first != nil { try await checkHardware(of: root, before: presence) }
        let old =
            if let index = indices.first {
                try await currentUserPIN(index, prompt, presence)
            } else {
                try await currentPIN(prompt, presence)
            }
        let isProven = blobs.contains { $0.protection.pinSalt != nil }
        let new = try await newPIN(isCounted: !revocable.isEmpty || isProven, prompt, presence)
        let replacements = try await presence.reporting(old) { () async throws(KeystoreError) in
            let changed = try await rewrapAll(blobs, under: root, from: old, to: new)
            var replacements: [Data] = []
            for blob in changed { replacements.append(try serialized(blob)) }
            // Changes the TPM last, after the old PIN was accepted for all objects.
            let unchanged = try await unchanged(
                revocable, from: old, to: new, isProven, under: root)
            for index in indices {
                do throws(KeystoreError) {
                    try await changeUserPIN(index, under: root, from: old, to: new)
                } catch {
                    guard error.code == .wrongProof, isProven || !unchanged.isEmpty else {
                        throw error
                    }
                    try await changeUserPIN(index, under: root, from: new, to: new)
                }
            }
            for secret in unchanged.reversed() {
                try await changeAuthValue(of: secret, to: secret, from: old, to: new, under: root)
            }
            return replacements
        }
        var rest = replacements[...]
        return (
            keys.map { $0.isRevocable ? $0 : $0.replacing(blob: rest.removeFirst()) },
            secrets.map { $0.isRevocable ? $0 : $0.replacing(blob: rest.removeFirst()) }
        )
    }

    /// Returns the secrets that still have the old PIN. An earlier change may have been
    /// interrupted. Changes go from the last secret to the first, so after the first secret with
    /// the new PIN all others have it too. A wrong PIN is counted once.
    ///
    /// - Parameter isProven: Whether the old PIN was right for another object.
    private func unchanged(
        _ revocable: [RevocableSecret], from old: PIN, to new: PIN, _ isProven: Bool,
        under root: StorageRoot
    ) async throws(KeystoreError) -> [RevocableSecret] {
        var unchanged: [RevocableSecret] = []
        for secret in revocable {
            do throws(KeystoreError) {
                _ = try await open(secret, old, under: root)
                unchanged.append(secret)
            } catch {
                // Trying the new PIN uses an attempt, but never the last one.
                guard error.code == .wrongProof, isProven || !unchanged.isEmpty,
                    error.attemptsLeft ?? 2 > 1
                else {
                    throw error
                }
                break
            }
        }
        for secret in revocable.dropFirst(unchanged.count) {
            _ = try await open(secret, new, under: root)
        }
        return unchanged
    }

    private func changeUserPIN(
        _ pin: PresenceProtection.UserPIN, under root: StorageRoot, from old: PIN, to new: PIN
    ) async throws(KeystoreError) {
        let explain: Explanation = { error in
            error.command == .nvChangeAuth ? await explainUserPIN(error, pin) : KeystoreError(error)
        }
        try await withTPM(explainedBy: explain) { (tpm) throws(TPMError) in
            try tpm.changeIndexPIN(
                of: pin.index, pin.branches, from: pin.authValue(old), to: pin.authValue(new),
                under: root)
        }
    }

    /// Wraps each object with its own PIN again for a new PIN.
    private func rewrapAll(
        _ blobs: [TPMKeyBlob], under root: StorageRoot, from old: PIN, to new: PIN
    ) async throws(KeystoreError) -> [TPMKeyBlob] {
        guard blobs.contains(where: { $0.protection.pinSalt != nil }) else { return blobs }
        let explain: Explanation = { await explainResponse($0, root, hasPIN: true) }
        return try await withTPM(explainedBy: explain) { (tpm) throws(TPMError) in
            try tpm.withSaltedSession(under: root) { (session, parent) throws(TPMError) in
                var changed: [TPMKeyBlob] = []
                for blob in blobs {
                    changed.append(
                        try tpm.rewrapForPIN(
                            blob, boundTo: blob.binding, under: parent, from: old, to: new,
                            session))
                }
                return changed
            }
        }
    }
}

extension TPM {
    /// Wraps one object with its own PIN for another PIN or binding.
    func rewrapForPIN(
        _ blob: TPMKeyBlob, boundTo binding: KeyBinding?, under parent: TPMObject, from old: PIN,
        to new: PIN,
        _ session: Session
    ) throws(TPMError) -> TPMKeyBlob {
        guard case .ownPIN(let oldSalt, let finger) = blob.protection else { return blob }
        let newSalt = PINHardening.randomSalt()
        var changed = blob
        changed.key.privatePart = try rewrap(
            blob, under: parent,
            from: try PINHardening.authValue(old, salt: oldSalt, boundTo: blob.binding),
            to: try PINHardening.authValue(new, salt: newSalt, boundTo: binding), session)
        changed.protection = .ownPIN(salt: newSalt, finger: finger)
        return changed
    }

    /// Wraps one object with another authValue, and checks that the TPM loads the result.
    func rewrap(
        _ blob: TPMKeyBlob, under parent: TPMObject, from old: AuthValue, to new: AuthValue,
        _ session: Session
    ) throws(TPMError) -> PrivateBlob {
        var key = blob.key
        key.privatePart = try withLoadedObject(
            of: key, under: parent, authorizedBy: .continuing(session)
        ) {
            (object) throws(TPMError) in
            try execute(
                ObjectChangeAuth(of: object, under: parent, to: new),
                authorizedBy: .continuing(session, authValue: old, protecting: .decrypt))
        }
        try withLoadedObject(of: key, under: parent, authorizedBy: .continuing(session)) {
            (_) throws(TPMError) in
        }
        return key.privatePart
    }
}
