public import Latchkey

extension PKCS11Keystore {
    /// Removes what the token gives up to anybody: all of a key without a PIN, and of a guarded one the public half,
    /// without which Latchkey does not use it any more. Its private half stays until its owner logs in; see
    /// ``delete(_:for:authorizedBy:)``.
    ///
    /// An adopted key stays on the token: Latchkey did not make it.
    ///
    /// - Throws: `KeystoreError`; `unsupported` where the module can't delete keys.
    public func delete(_ key: HardwareKey) async throws(KeystoreError) {
        let operation = "delete a key"
        guard let (blob, sight) = try await deletable(key, operation) else { return }
        try await attempt(.open, sight, operation) { (session, _) throws(CryptokiError) in
            try session.destroyKey(id: blob.name.id)
        }
    }

    /// Removes both halves of a key. For a guarded one `presence` is asked for the PIN.
    public func delete(
        _ key: HardwareKey, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) {
        let operation = "delete a key"
        guard let (blob, sight) = try await deletable(key, operation) else { return }
        try await use(sight, under: blob.terms.policy, for: prompt, operation, presence) {
            (session, _) throws(CryptokiError) in try session.destroyKey(id: blob.name.id)
        }
    }

    /// - Returns: nil when there is nothing to delete.
    private func deletable(
        _ key: HardwareKey, _ operation: String
    ) async throws(KeystoreError) -> (TokenKeyBlob, TokenSight)? {
        let blob = try TokenKeyBlob.of(key, operation)
        guard !blob.isAdopted else { return nil }
        let sight = try await look(operation, for: blob.name.id) { (information) throws(KeystoreError) in
            guard blob.name.fits(information) else {
                throw .otherToken(operation, wanted: blob.name, found: information)
            }
        }
        // Another key in the same place is not ours to delete.
        if let publicKey = sight.publicKey, publicKey.fingerprint != blob.publicKeyHash { return nil }
        guard sight.token.profile.deletion == .deletes else {
            throw .unsupported(
                operation, "the module can't delete keys from this token, whatever it answers",
                recovery: "Overwrite or erase the slot with the card's own tool (YubiKey: `ykman piv keys delete` from "
                    + "firmware 5.7 on), and forget the key here with `latchkey key delete --forget`. Without its PIN it is of no "
                    + "use to anybody.")
        }
        return (blob, sight)
    }
}
