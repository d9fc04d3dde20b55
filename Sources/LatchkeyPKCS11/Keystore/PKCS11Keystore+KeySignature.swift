internal import FoundationEssentials
internal import Latchkey

/// Secrets that an RSA key on the token signs for, where the token has no ECDH.
///
/// There is one signature for each header and key, and nobody but the token makes it, for sealing as for opening: who can
/// write the store but can't use the token makes no box.
extension PKCS11Keystore {
    /// Has a new header signed, with a new key where the token has none yet.
    func signForSecret(
        _ policy: AccessPolicy, _ sight: TokenSight, _ prompt: PromptContext, _ operation: String,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> EstablishedSecret {
        let id = KeyPairRequest.sealingID(for: policy, version: 2)
        let pair = KeyPairRequest(sealing: .signRSA, id: id, policy: policy)
        let name = TokenName(sight.information, id: id)
        let nature = sight.nature
        let salt = SecretBytes.random(count: SealedBox.saltBytes).withUnsafeBytes { Data($0) }
        let generates = try await visit(sight, operation) { (session) throws(CryptokiError) in
            try session.rsaPublicKey(id: id) == nil
        }
        return try await use(
            sight, under: policy, for: prompt, isExclusive: generates, operation, presence
        ) { (session, _) throws(CryptokiError) in
            let key = try session.signatureKey(pair)
            let header = SealedBox.Header(
                name: name, publicKeyHash: key.publicKey.fingerprint,
                terms: KeyTerms(policy, on: nature, needsTouch: false), message: .signature(salt: salt))
            return EstablishedSecret(
                header: header, secret: try session.signature(of: try header.statement(), with: key))
        }
    }

    /// Has the header of a box signed again.
    func signedSecret(
        _ header: SealedBox.Header, _ prompt: PromptContext, _ operation: String,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SecretBytes {
        let sight = try await look(operation, for: header)
        return try await use(
            sight, under: header.terms.policy, for: prompt, operation, presence
        ) { (session, _) throws(CryptokiError) in
            try session.signature(of: try header.statement(), with: session.rsaKey(id: header.name.id))
        }
    }

    /// Looks for the sealing key of a box: the right token, the key on it, and the right key.
    func look(_ operation: String, for header: SealedBox.Header) async throws(KeystoreError) -> TokenSight {
        guard case .signature = header.message else {
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
    fileprivate func signatureKey(_ pair: KeyPairRequest) throws(CryptokiError) -> RSATokenKey {
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
