internal import FoundationEssentials
internal import Latchkey

/// Secrets that are encrypted to an RSA key on the token, where the token has no ECDH.
///
/// Anybody who knows the public key can encrypt to it: a box made so keeps its secret, but whoever can write the store
/// can put another one in its place.
extension PKCS11Keystore {
    /// Encrypts a new secret, to a new key where the token has none yet.
    func transportSecret(
        _ policy: AccessPolicy, _ sight: TokenSight, _ prompt: PromptContext, _ operation: String,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> EstablishedSecret {
        let id = KeyPairRequest.sealingID(for: policy, version: 2)
        let pair = KeyPairRequest(sealing: .decrypt, id: id, policy: policy)
        let secret = SecretBytes.random(count: SealedBox.secretBytes)
        // The token decrypts what we encrypted: a secret is sealed only when it is certain that it can be opened.
        let (publicKey, ciphertext, theirs) = try await use(
            sight, under: policy, for: prompt, operation, presence
        ) { (session, _) throws(CryptokiError) in
            let key = try session.transportKey(pair)
            let ciphertext = try key.publicKey.encrypt(secret)
            return (key.publicKey, ciphertext, try session.decrypt(ciphertext, with: key))
        }
        guard secret == theirs else {
            throw KeystoreError(
                operation: operation, code: .failed, reason: "the token does not decrypt as RSA-OAEP says",
                recovery: "Report this with the token's model; nothing was sealed.")
        }
        let header = SealedBox.Header(
            name: TokenName(sight.information, id: id), publicKeyHash: publicKey.fingerprint,
            terms: KeyTerms(policy, on: sight.nature, needsTouch: false), message: .transport(ciphertext))
        return EstablishedSecret(header: header, secret: secret)
    }

    /// Decrypts a secret.
    func transportedSecret(
        _ header: SealedBox.Header, _ ciphertext: Data, _ prompt: PromptContext, _ operation: String,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SecretBytes {
        let sight = try await look(operation, for: header)
        return try await use(
            sight, under: header.terms.policy, for: prompt, operation, presence
        ) { (session, _) throws(CryptokiError) in
            try session.decrypt(ciphertext, with: session.rsaKey(id: header.name.id))
        }
    }

    /// Looks for the sealing key of a box: the right token, the key on it, and the right key.
    func look(_ operation: String, for header: SealedBox.Header) async throws(KeystoreError) -> TokenSight {
        guard case .transport = header.message else {
            return try await look(operation, for: header.name, withHash: header.publicKeyHash)
        }
        let name = header.name
        let sight = try await look(operation) { (information) throws(KeystoreError) in
            guard name.fits(information) else { throw .otherToken(operation, wanted: name, found: information) }
        }
        let publicKey = try await visit(sight, operation) { (session) throws(CryptokiError) in
            try session.rsaPublicKey(id: name.id)
        }
        guard let publicKey else { throw .keyGone(operation, name) }
        guard publicKey.fingerprint == header.publicKeyHash else { throw .keyReplaced(operation, name) }
        return sight
    }
}

extension Session {
    /// The sealing key that is there, or a new one, which takes seconds.
    ///
    /// - Throws: `unsound` for one that could be read, or that needs a login where the policy has none, or the reverse.
    fileprivate func transportKey(_ pair: KeyPairRequest) throws(CryptokiError) -> RSATokenKey {
        let key: RSATokenKey
        if try rsaPublicKey(id: pair.id) != nil {
            key = try rsaKey(id: pair.id)
        } else {
            try checkCancellation()
            key = try generateRSAKeyPair(pair)
        }
        try checkProtection(of: key, isGenerated: true)
        guard key.attributes.isPrivate == pair.isPrivate else { throw .unfitSealingKey }
        return key
    }
}
