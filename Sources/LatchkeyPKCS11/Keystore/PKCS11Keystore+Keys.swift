package import FoundationEssentials
public import Latchkey

extension PKCS11Keystore {
    /// Deletes the parts of a key that need no login: all of a key without a PIN, and the public half of a PIN-protected one,
    /// which Latchkey then no longer uses. Its private half stays until ``delete(_:for:authorizedBy:)`` deletes it.
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
    private func deletable(_ key: HardwareKey) async throws(KeystoreError) -> (TokenKeyBlob, TokenSnapshot)? {
        let blob = try TokenKeyBlob.of(key)
        guard !blob.isAdopted else { return nil }
        let snapshot = try await takeSnapshot(for: blob.name.id, on: blob.name)
        // A different key with the same ID is not Latchkey's to delete.
        if let publicKey = snapshot.publicKey, publicKey.fingerprint != blob.publicKeyHash { return nil }
        guard snapshot.module.deletesKeys else {
            throw .unsupported(
                "the module can't delete keys from this token, even if it reports success",
                recovery: "Overwrite or erase the slot with the card's own tool (YubiKey: `ykman piv keys delete` from "
                    + "firmware 5.7 on), and remove the entry here with `latchkey key delete --forget`. The key can't be "
                    + "used without its PIN.")
        }
        return (blob, snapshot)
    }
}

/// A P-256 key on a token, created by any program.
package struct TokenKeyListing: Hashable, Sendable {
    /// A URI by which the key can be adopted: token, module and `id`.
    package let uri: String
    /// `CKA_ID`, 1 to 64 bytes.
    package let id: Data
    /// `CKA_LABEL`.
    package let label: String
    package let publicKey: PublicKey
    /// Whether it can be used only after a login; nil if the token does not report it.
    package let needsLogin: Bool?
    /// Whether each use needs a separate proof; nil if the token does not report it.
    package let alwaysAuthenticates: Bool?
    /// Whether it was generated on the token; nil if the token does not report it.
    package let wasGeneratedHere: Bool?
}

extension PKCS11Keystore {
    /// The P-256 keys on the token, Latchkey's and others.
    ///
    /// Most tokens show private keys only after a login: `presence` is prompted for the PIN. With nil there is no login.
    package func keys(
        for prompt: PromptContext, authorizedBy presence: (any PresenceAuthority)?
    ) async throws(KeystoreError) -> [TokenKeyListing] {
        do throws(KeystoreError) {
            let snapshot = try await takeSnapshot()
            let requirement: AccessPolicy = snapshot.profile.verifiesUserItself ? .userPresence : .pin
            let keys = try await use(
                snapshot, under: presence == nil ? .none : requirement, for: prompt, presence ?? NobodyPresent()
            ) { (session, _) throws(CryptokiError) in try session.keys() }
            return keys.map { key in
                TokenKeyListing(
                    uri: TokenName(snapshot.information, id: key.id).uri(inModule: snapshot.token.module.path),
                    id: key.id, label: key.label, publicKey: key.publicKey, needsLogin: key.attributes.isPrivate,
                    alwaysAuthenticates: key.attributes.alwaysAuthenticates,
                    wasGeneratedHere: key.attributes.isLocal)
            }
        } catch {
            throw error.during("list the token's keys")
        }
    }

    /// The URI of a stored key's token with the key's `id`, without a module. Needs neither token nor module.
    package static func location(of key: HardwareKey) throws(KeystoreError) -> String {
        do throws(KeystoreError) {
            return try TokenKeyBlob.of(key).name.uri
        } catch {
            throw error.during("find a key")
        }
    }

    /// Whether a stored key was adopted. Latchkey never deletes such a key from its token.
    package static func isAdopted(_ key: HardwareKey) -> Bool { (try? TokenKeyBlob.of(key).isAdopted) ?? false }
}
