internal import FoundationEssentials
internal import Latchkey

/// Secrets that are shared by ECDH with a P-256 key on the token.
///
/// On a PIV card this is the key in 9d (with a PIN) or 9e (without), which other programs may use too: key agreement does not
/// harm it.
extension PKCS11Keystore {
    /// Agrees on a new secret, with a new key if the token has none yet.
    func agreeOnSecret(
        _ policy: AccessPolicy, _ token: TokenSnapshot, _ prompt: PromptContext, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> EstablishedSecret {
        let profile = token.profile
        let id =
            profile.isPIV
            ? (policy.requirement == .none ? PIVSlot.cardAuthentication : .keyManagement).id
            : KeyPairRequest.sealingID(for: policy, .agreement)
        let pair = KeyPairRequest(sealing: .derive, id: id, policy: policy)
        let snapshot = try await agreementSnapshot(takeSnapshot(for: id))
        if snapshot.publicKey == nil {
            try await generateSealingKey(pair, snapshot, prompt, presence)
        }
        let name = TokenName(token.information, id: id)
        let salt = SealedBox.newSalt()
        // Only the token can compute the secret, so only the token, with its PIN if it has one, can have sealed with it.
        let generates = snapshot.publicKey == nil && snapshot.module.generator == .user
        return try await use(
            snapshot, under: policy, for: prompt, isExclusive: generates, presence
        ) { (session, _) throws(CryptokiError) in
            let key = try session.agreementSealingKey(pair)
            let attestation = try session.attestation(of: key)
            let header = SealedBox.Header(
                name: name, publicKeyHash: key.publicKey.fingerprint,
                terms: profile.terms(policy, attestation, isNew: snapshot.publicKey == nil), establishment: .agreement,
                salt: salt)
            let point = try header.point()
            let secret = try TouchHint(presence, for: prompt, on: session).during { () throws(CryptokiError) in
                try session.sharedSecret(of: key, with: point)
            }
            return (header, secret)
        }
    }

    /// Computes the secret of a box again on the token.
    func agreedSecret(
        _ header: SealedBox.Header, _ prompt: PromptContext, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SecretBytes {
        let snapshot = try await agreementSnapshot(
            checkedSnapshot(of: header.name, withHash: header.publicKeyHash))
        return try await use(
            snapshot, under: header.terms.policy, for: prompt, presence
        ) { (session, _) throws(CryptokiError) in
            let key = try session.agreementKey(id: header.name.id)
            let point = try header.point()
            return try TouchHint(presence, for: prompt, on: session).during { () throws(CryptokiError) in
                try session.sharedSecret(of: key, with: point)
            }
        }
    }

    /// The token in the module that can do key agreement: the same one, or the one of ``Token/agreementToken()``.
    ///
    /// A login there is never kept: it would be the card's login, which every program on the card could use.
    func agreementSnapshot(
        _ snapshot: TokenSnapshot
    ) async throws(KeystoreError) -> TokenSnapshot {
        do {
            guard let token = try await snapshot.token.agreementToken() else { return snapshot }
            var snapshot = snapshot
            snapshot.token = token
            snapshot.keepsLogin = false
            return snapshot
        } catch {
            throw KeystoreError(error, profile: snapshot.module)
        }
    }

    /// Generates the sealing key before the user logs in, if only the security officer may create keys.
    private func generateSealingKey(
        _ pair: KeyPairRequest, _ snapshot: TokenSnapshot, _ prompt: PromptContext, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) {
        try await checkGeneration(snapshot)
        guard snapshot.module.generator == .securityOfficer else { return }
        let officer = try await officerProof(snapshot, for: prompt, presence)
        try await asSecurityOfficer(officer, snapshot) { (session) throws(CryptokiError) in
            // A key that another program created during the prompt can be used too.
            guard try !session.isOccupied(id: pair.id) else { return }
            _ = try session.generateKeyPair(pair)
        }
    }
}

/// Secrets that are signatures of an RSA key on the token, for tokens without ECDH.
///
/// Each header has one signature per key, and only the token can compute it, for sealing as for opening. An attacker who can
/// write the store but can't use the token can't create a box.
extension PKCS11Keystore {
    /// Signs a new header, with a new key if the token has none yet.
    func signForSecret(
        _ policy: AccessPolicy, _ snapshot: TokenSnapshot, _ prompt: PromptContext, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> EstablishedSecret {
        let id = KeyPairRequest.sealingID(for: policy, .signature)
        let pair = KeyPairRequest(sealing: .signRSA, id: id, policy: policy)
        let name = TokenName(snapshot.information, id: id)
        let profile = snapshot.profile
        let salt = SealedBox.newSalt()
        let generates = try await snapshot.token.inspect { (session) throws(CryptokiError) in
            try session.rsaPublicKey(id: id) == nil
        }
        return try await use(
            snapshot, under: policy, for: prompt, isExclusive: generates, presence
        ) { (session, _) throws(CryptokiError) in
            let key = try session.signatureSealingKey(pair)
            let header = SealedBox.Header(
                name: name, publicKeyHash: key.publicKey.fingerprint,
                terms: profile.terms(policy, isNew: generates), establishment: .signature, salt: salt)
            return (header, try session.signature(of: try header.statement(), with: key))
        }
    }

    /// Signs the header of a box again.
    func signedSecret(
        _ header: SealedBox.Header, _ prompt: PromptContext, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SecretBytes {
        let snapshot = try await sealingSnapshot(for: header)
        return try await use(
            snapshot, under: header.terms.policy, for: prompt, presence
        ) { (session, _) throws(CryptokiError) in
            try session.signature(of: try header.statement(), with: session.rsaKey(id: header.name.id))
        }
    }

    /// Finds the token and the sealing key of a box, and checks that both are the stored ones.
    func sealingSnapshot(for header: SealedBox.Header) async throws(KeystoreError) -> TokenSnapshot {
        let name = header.name
        guard header.establishment == .signature else {
            return try await checkedSnapshot(of: name, withHash: header.publicKeyHash)
        }
        let snapshot = try await takeSnapshot(on: name)
        let publicKey = try await snapshot.token.inspect { (session) throws(CryptokiError) in
            try session.rsaPublicKey(id: name.id)
        }
        try name.check(header.publicKeyHash, found: publicKey?.fingerprint)
        return snapshot
    }
}

extension Session {
    /// The existing P-256 sealing key, or a new one.
    ///
    /// - Throws: `unsound` for a key that can be read, that was imported, or that needs a login where the policy has none, or
    ///   the reverse.
    fileprivate func agreementSealingKey(_ pair: KeyPairRequest) throws(CryptokiError) -> TokenKey {
        let key: TokenKey
        if try publicKey(id: pair.id) != nil || profile.generator != .user {
            key = try agreementKey(id: pair.id)
        } else {
            try checkCancellation()
            key = try generateKeyPair(pair)
        }
        try checkProtection(of: key, isGenerated: true)
        try checkAttestation(of: key, needsPIN: pair.isPrivate)
        guard profile.usesSlotIDs || key.attributes.isPrivate == pair.isPrivate else {
            throw .unfitSealingKey
        }
        return key
    }

    /// Yubico's attestation, and not the slot, proves where a key was generated and when the card requires the PIN.
    private func checkAttestation(of key: TokenKey, needsPIN: Bool) throws(CryptokiError) {
        guard profile.family == .ykcs11 else { return }
        guard let attestation = try attestation(of: key) else {
            throw CryptokiError(.unsound, reason: "the card does not attest that it generated the sealing key")
        }
        guard let pin = attestation.pin, !needsPIN || pin != .never else {
            throw CryptokiError(.unsound, reason: "the card does not attest that the sealing key needs the PIN")
        }
    }

    /// The existing RSA sealing key, or a new one, which takes seconds.
    ///
    /// - Throws: `unsound` for a key that can be read, or that needs a login where the policy has none, or the reverse.
    fileprivate func signatureSealingKey(_ pair: KeyPairRequest) throws(CryptokiError) -> RSATokenKey {
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
