internal import FoundationEssentials
package import Latchkey

extension PKCS11Keystore {
    /// The P-256 keys on the token, ours and others.
    ///
    /// Most tokens show private keys to their owner only: `presence` is asked for the PIN. With nil the token shows what
    /// it shows to anybody.
    package func keys(
        for prompt: PromptContext, authorizedBy presence: (any PresenceAuthority)?
    ) async throws(KeystoreError) -> [TokenKeyListing] {
        let operation = "list the token's keys"
        let sight = try await look(operation)
        let requirement: AccessPolicy = sight.nature.asksItself ? .userPresence : .pin
        let keys = try await use(
            sight, under: presence == nil ? .none : requirement, for: prompt, operation, presence ?? NobodyPresent()
        ) { (session, _) throws(CryptokiError) in
            try session.keys().map { ($0.id, $0.label, $0.publicKey, $0.attributes) }
        }
        return keys.map { (id, label, publicKey, attributes) in
            TokenKeyListing(
                uri: TokenName(sight.information, id: id).uri(inModule: sight.token.module.path), id: id,
                label: label, publicKey: publicKey, needsLogin: attributes.isPrivate,
                alwaysAuthenticates: attributes.alwaysAuthenticates, wasGeneratedHere: attributes.isLocal)
        }
    }

    /// Where a stored key is: the URI of its token with its `id`, without a module. Needs neither token nor module.
    package static func location(of key: HardwareKey) throws(KeystoreError) -> String {
        try TokenKeyBlob.of(key, "find a key").name.uri
    }

    /// Whether a stored key was on its token before it was taken over: such a key is never deleted there.
    package static func isAdopted(_ key: HardwareKey) -> Bool {
        (try? TokenKeyBlob.of(key, "find a key").isAdopted) ?? false
    }

    /// The URI of a stored key: its token, this keystore's module, and its `id`. For programs that use the key by other
    /// means, such as OpenSSL's.
    package func uri(of key: HardwareKey) throws(KeystoreError) -> String {
        let name = try TokenKeyBlob.of(key, "find a key").name
        guard let module = uri.modulePath else { return name.uri }
        return name.uri(inModule: module)
    }
}
