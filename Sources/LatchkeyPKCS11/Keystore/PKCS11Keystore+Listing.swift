package import FoundationEssentials
package import Latchkey

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
        let operation = "list the token's keys"
        let snapshot = try await takeSnapshot(operation)
        let requirement: AccessPolicy = snapshot.profile.verifiesUserItself ? .userPresence : .pin
        let keys = try await use(
            snapshot, under: presence == nil ? .none : requirement, for: prompt, operation,
            presence ?? NobodyPresent()
        ) { (session, _) throws(CryptokiError) in
            try session.keys().map { ($0.id, $0.label, $0.publicKey, $0.attributes) }
        }
        return keys.map { (id, label, publicKey, attributes) in
            TokenKeyListing(
                uri: TokenName(snapshot.information, id: id).uri(inModule: snapshot.token.module.path), id: id,
                label: label, publicKey: publicKey, needsLogin: attributes.isPrivate,
                alwaysAuthenticates: attributes.alwaysAuthenticates, wasGeneratedHere: attributes.isLocal)
        }
    }

    /// The URI of a stored key's token with the key's `id`, without a module. Needs neither token nor module.
    package static func location(of key: HardwareKey) throws(KeystoreError) -> String {
        try TokenKeyBlob.of(key, "find a key").name.uri
    }

    /// Whether a stored key was adopted. Latchkey never deletes such a key from its token.
    package static func isAdopted(_ key: HardwareKey) -> Bool {
        (try? TokenKeyBlob.of(key, "find a key").isAdopted) ?? false
    }

    /// The URI of a stored key for other programs, such as OpenSSL's: its token, this keystore's module, and its `id`.
    package func uri(of key: HardwareKey) throws(KeystoreError) -> String {
        let name = try TokenKeyBlob.of(key, "find a key").name
        guard let module = uri.modulePath else { return name.uri }
        return name.uri(inModule: module)
    }
}
