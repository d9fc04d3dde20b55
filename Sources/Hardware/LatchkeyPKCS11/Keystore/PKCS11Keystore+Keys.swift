package import FoundationEssentials
public import Latchkey

extension PKCS11Keystore {
    /// Deletes the parts of a key that need no login: all of a key without a PIN, and the public
    /// half of a PIN-protected one, which Latchkey then no longer uses. Its private half stays
    /// until ``delete(_:for:authorizedBy:)`` deletes it.
    ///
    /// An adopted key stays on the token, because Latchkey did not create it.
    ///
    /// - Throws: `KeystoreError`; `unsupported` if the module can't delete keys.
    public func delete(_ key: HardwareKey) async throws(KeystoreError) {
        do throws(KeystoreError) {
            guard let (blob, snapshot) = try await deletable(key) else { return }
            try await snapshot.token.inspect { (session) throws(CryptokiError) in
                try session.destroyKey(id: blob.name.id)
            }
        } catch {
            throw error.during("delete a key")
        }
    }

    /// Deletes both halves of a key. Prompts for the PIN of a PIN-protected key.
    public func delete(
        _ key: HardwareKey, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) {
        do throws(KeystoreError) {
            guard let (blob, snapshot) = try await deletable(key) else { return }
            try await use(snapshot, under: blob.terms.policy, for: prompt, presence) {
                (session, _) throws(CryptokiError) in try session.destroyKey(id: blob.name.id)
            }
        } catch {
            throw error.during("delete a key")
        }
    }

    /// - Returns: nil if there is nothing to delete.
    private func deletable(_ key: HardwareKey) async throws(KeystoreError) -> (
        TokenKeyBlob, TokenSnapshot
    )? {
        let blob = try TokenKeyBlob.of(key)
        guard !blob.isAdopted else { return nil }
        let snapshot = try await takeSnapshot(for: blob.name.id, on: blob.name)
        // A different key with the same ID is not Latchkey's to delete.
        if let publicKey = snapshot.publicKey, publicKey.fingerprint != blob.publicKeyHash {
            return nil
        }
        guard snapshot.module.deletesKeys else {
            throw .unsupported(
                "the module can't delete keys from this token, even if it reports success",
                recovery:
                    "Overwrite or erase the slot with the card's own tool (YubiKey: `ykman piv keys delete` from "
                    + "firmware 5.7 on), and remove the entry here with `latchkey key delete --forget`. The key can't be "
                    + "used without its PIN.")
        }
        return (blob, snapshot)
    }
}

/// A key on a token, created by any program.
package struct TokenKeyListing: Hashable, Sendable {
    /// A URI by which the key can be adopted: token, module and `id`.
    package let uri: String
    /// `CKA_ID`, 1 to 64 bytes.
    package let id: Data
    /// The slot of a PIV card.
    package let slot: PIVSlot?
    /// `CKA_LABEL`.
    package let label: String
    /// nil for a key of another type than P-256, which can't be used.
    package let publicKey: PublicKey?
}

extension PKCS11Keystore {
    /// The keys on the token whose public halves are visible without a login, Latchkey's and
    /// others. Does not prompt.
    package func keys() async throws(KeystoreError) -> [TokenKeyListing] {
        do throws(KeystoreError) {
            let snapshot = try await takeSnapshot()
            let keys = try await snapshot.token.inspect { (session) throws(CryptokiError) in
                try session.publicKeys()
            }
            return keys.map { key in
                TokenKeyListing(
                    uri: TokenName(snapshot.information, id: key.id).uri(
                        inModule: snapshot.token.module.path),
                    id: key.id, slot: snapshot.profile.isPIV ? PIVSlot(id: key.id) : nil,
                    label: key.label,
                    publicKey: key.publicKey)
            }
        } catch {
            throw error.during("list the token's keys")
        }
    }

    /// The URI of a stored key's token with the key's `id`, without a module. Needs neither token
    /// nor module.
    package static func location(of key: HardwareKey) throws(KeystoreError) -> String {
        do throws(KeystoreError) {
            return try TokenKeyBlob.of(key).name.uri
        } catch {
            throw error.during("find a key")
        }
    }

    /// Whether a stored key was adopted. Latchkey never deletes such a key from its token.
    package static func isAdopted(_ key: HardwareKey) -> Bool {
        (try? TokenKeyBlob.of(key).isAdopted) ?? false
    }
}
