internal import FoundationEssentials
internal import Latchkey

extension PKCS11Keystore {
    /// Takes over a key that is on the token already, after the checks that a new one gets, if the token enforces the
    /// policy that is asked for: no more and no less.
    func adopt(
        _ request: KeyRequest, _ sight: TokenSight, _ operation: String, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> BornKey {
        let (id, label) = (uri.keyID, uri.keyLabel)
        if id != nil, sight.publicKey == nil { throw absent(operation) }
        let hint = TouchHint(presence, for: request.prompt, on: sight.token.profile.family)
        let born: BornKey
        do {
            born = try await use(
                sight, under: request.policy, for: request.prompt, operation, presence
            ) { (session, proof) throws(CryptokiError) in
                let key = try session.key(id: id, label: label)
                guard (1...64).contains(key.id.count) else {
                    throw CryptokiError(
                        .unsupported,
                        reason: "the key's CKA_ID has \(key.id.count) bytes, and not 1 to 64: give it another")
                }
                try session.checkProtection(of: key)
                try hint.during { () throws(CryptokiError) in
                    try session.prove(key, with: key.wantsProofAtUse ? proof : nil)
                }
                return BornKey(key, attestation: try session.attestation(of: key))
            }
        } catch {
            // Without a login a private key can't be seen.
            guard request.policy.requirement == .none, error.code == .notFound || error.code == .passcodeNotSet else {
                throw error
            }
            throw sight.publicKey == nil ? absent(operation) : mismatch(operation, needsLogin: true)
        }
        let needsLogin = needsLogin(born, sight)
        guard needsLogin == (request.policy.requirement != .none) else {
            throw mismatch(operation, needsLogin: needsLogin)
        }
        guard request.policy.reuseSeconds == 0 || born.attributes.alwaysAuthenticates != true else {
            throw .unsupported(
                operation, "the token wants a proof for each single use of this key",
                recovery: "Leave the time of reuse out.")
        }
        return born
    }

    /// Whether the token refuses to use the key without a login. On a PIV card the slot and the key's own policy decide,
    /// where modules report `CKA_PRIVATE` without looking.
    private func needsLogin(_ born: BornKey, _ sight: TokenSight) -> Bool {
        if let pin = born.attestation?.pin { return pin != .never }
        if sight.nature.isPIV { return born.id != PIVSlot.cardAuthentication.id }
        return born.attributes.isPrivate ?? true
    }

    private func absent(_ operation: String) -> KeystoreError {
        .notFound(
            operation, "the token has no P-256 key by that name",
            recovery: "See what it has with `latchkey token list`, or name the token alone to make a new key.")
    }

    private func mismatch(_ operation: String, needsLogin: Bool) -> KeystoreError {
        .unsupported(
            operation,
            needsLogin
                ? "the token asks for a proof before it uses this key" : "the token uses this key without any proof",
            recovery: needsLogin ? "Use the policy `pin`." : "Use the policy `none`, or a key that needs the PIN.")
    }
}
