internal import FoundationEssentials
internal import Latchkey

extension PKCS11Keystore {
    /// Adopts a key that is on the token already, after the checks that a new key gets, if the token enforces exactly the
    /// requested policy.
    func adopt(
        _ request: KeyRequest, _ snapshot: TokenSnapshot, _ operation: String, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> NewKey {
        let (id, label) = (uri.keyID, uri.keyLabel)
        if id != nil, snapshot.publicKey == nil { throw absent(operation) }
        let hint = TouchHint(presence, for: request.prompt, on: snapshot.token.module.profile.family)
        let newKey: NewKey
        do {
            newKey = try await use(
                snapshot, under: request.policy, for: request.prompt, operation, presence
            ) { (session, proof) throws(CryptokiError) in
                let key = try session.key(id: id, label: label)
                guard (1...64).contains(key.id.count) else {
                    throw CryptokiError(
                        .unsupported,
                        reason: "the key's CKA_ID has \(key.id.count) bytes, not 1 to 64: give it another CKA_ID")
                }
                try session.checkProtection(of: key)
                try hint.during { () throws(CryptokiError) in
                    try session.selfTest(key, with: key.wantsProofAtUse ? proof : nil)
                }
                return NewKey(key, attestation: try session.attestation(of: key))
            }
        } catch {
            // Without a login a private key is invisible.
            guard request.policy.requirement == .none, error.code == .notFound || error.code == .passcodeNotSet else {
                throw error
            }
            throw snapshot.publicKey == nil ? absent(operation) : mismatch(operation, needsLogin: true)
        }
        let needsLogin = needsLogin(newKey, snapshot)
        guard needsLogin == (request.policy.requirement != .none) else {
            throw mismatch(operation, needsLogin: needsLogin)
        }
        guard request.policy.reuseSeconds == 0 || newKey.attributes.alwaysAuthenticates != true else {
            throw .unsupported(
                operation, "the token requires the PIN for each use of this key",
                recovery: "Omit the reuse time.")
        }
        return newKey
    }

    /// Whether the token requires a login to use the key. On a PIV card the slot and the key's PIN policy decide, because
    /// modules report `CKA_PRIVATE` without reading the card.
    private func needsLogin(_ key: NewKey, _ snapshot: TokenSnapshot) -> Bool {
        if let pin = key.attestation?.pin { return pin != .never }
        if snapshot.profile.isPIV { return key.id != PIVSlot.cardAuthentication.id }
        return key.attributes.isPrivate ?? true
    }

    private func absent(_ operation: String) -> KeystoreError {
        .notFound(
            operation, "the token has no P-256 key by that name",
            recovery: "List its keys with `latchkey token list`, or name only the token to create a new key.")
    }

    private func mismatch(_ operation: String, needsLogin: Bool) -> KeystoreError {
        .unsupported(
            operation,
            needsLogin ? "the token requires a PIN for this key" : "the token uses this key without a PIN",
            recovery: needsLogin ? "Use the policy `pin`." : "Use the policy `none`, or a key that needs the PIN.")
    }
}
