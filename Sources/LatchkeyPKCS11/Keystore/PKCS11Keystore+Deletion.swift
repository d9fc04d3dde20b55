public import Latchkey

extension PKCS11Keystore {
    /// Deletes the parts of a key that need no login: all of a key without a PIN, and the public half of a PIN-protected one,
    /// which Latchkey then no longer uses. Its private half stays until ``delete(_:for:authorizedBy:)`` deletes it.
    ///
    /// An adopted key stays on the token, because Latchkey did not create it.
    ///
    /// - Throws: `KeystoreError`; `unsupported` if the module can't delete keys.
    public func delete(_ key: HardwareKey) async throws(KeystoreError) {
        let operation = "delete a key"
        guard let (blob, snapshot) = try await deletable(key, operation) else { return }
        try await attempt(.open, snapshot, operation) { (session, _) throws(CryptokiError) in
            try session.destroyKey(id: blob.name.id)
        }
    }

    /// Deletes both halves of a key. Prompts for the PIN of a PIN-protected key.
    public func delete(
        _ key: HardwareKey, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) {
        let operation = "delete a key"
        guard let (blob, snapshot) = try await deletable(key, operation) else { return }
        try await use(snapshot, under: blob.terms.policy, for: prompt, operation, presence) {
            (session, _) throws(CryptokiError) in try session.destroyKey(id: blob.name.id)
        }
    }

    /// - Returns: nil if there is nothing to delete.
    private func deletable(
        _ key: HardwareKey, _ operation: String
    ) async throws(KeystoreError) -> (TokenKeyBlob, TokenSnapshot)? {
        let blob = try TokenKeyBlob.of(key, operation)
        guard !blob.isAdopted else { return nil }
        let snapshot = try await takeSnapshot(operation, for: blob.name.id) { (information) throws(KeystoreError) in
            try blob.name.check(information, operation)
        }
        // A different key with the same ID is not Latchkey's to delete.
        if let publicKey = snapshot.publicKey, publicKey.fingerprint != blob.publicKeyHash { return nil }
        guard snapshot.token.module.profile.deletion == .deletes else {
            throw .unsupported(
                operation, "the module can't delete keys from this token, even if it reports success",
                recovery: "Overwrite or erase the slot with the card's own tool (YubiKey: `ykman piv keys delete` from "
                    + "firmware 5.7 on), and remove the entry here with `latchkey key delete --forget`. The key can't be "
                    + "used without its PIN.")
        }
        return (blob, snapshot)
    }
}
