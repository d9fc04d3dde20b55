internal import FoundationEssentials
internal import Latchkey

/// Secrets that are shared by ECDH with a P-256 key on the token.
///
/// On a PIV card this is the key in 9d (with a PIN) or 9e (without), which other programs may use
/// too: key agreement does not harm it.
extension PKCS11Keystore {
    /// Agrees on a new secret, with a new key if the token has none yet.
    func agreeOnSecret(
        _ policy: AccessPolicy, _ token: TokenSnapshot, _ prompt: PromptContext,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> EstablishedSecret {
        let profile = token.profile
        let pair = KeyPairRequest(agreementUnder: policy, on: profile)
        let id = pair.id
        let snapshot = try await agreementSnapshot(takeSnapshot(for: id))
        try await checkSealingKey(pair, snapshot.publicKey, snapshot)
        var publicKey = snapshot.publicKey
        if publicKey == nil {
            try await generateSealingKey(pair, snapshot, prompt, presence)
            publicKey = try await takeSnapshot(for: id).publicKey
            // Another program may have created the key during the prompt.
            if let publicKey { try await checkSealingKey(pair, publicKey, snapshot) }
        }
        let own = try await isOwn(publicKey) ? publicKey : nil
        let name = TokenName(token.information, id: id)
        let salt = SealedBox.newSalt()
        // Only the token can compute the secret, so only the token, with its PIN if it has one, can
        // have sealed with it.
        let generates = snapshot.publicKey == nil && snapshot.module.generator == .user
        return try await use(
            snapshot, under: policy, for: prompt, isExclusive: generates, presence
        ) { (session, _) throws(CryptokiError) in
            let key = try session.agreementSealingKey(pair)
            let attestation = try session.checkOrigin(
                of: key.publicKey, pair, isOwn: key.publicKey == own)
            let header = SealedBox.Header(
                name: name, publicKeyHash: key.publicKey.fingerprint,
                terms: profile.terms(policy, attestation, isNew: key.publicKey == own),
                establishment: .agreement,
                salt: salt)
            let point = try header.point()
            let secret = try TouchHint(presence, for: prompt, on: session).during {
                () throws(CryptokiError) in
                try session.sharedSecret(of: key, with: point)
            }
            return (header, secret)
        }
    }

    /// Computes the secret of a box again on the token.
    func agreedSecret(
        _ header: SealedBox.Header, _ prompt: PromptContext, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SecretBytes {
        let policy = header.terms.policy
        return try await header.name.explainingAbsence { () async throws(KeystoreError) in
            let snapshot = try await agreementSnapshot(
                checkedSnapshot(of: header.name, withHash: header.publicKeyHash, under: policy))
            return try await use(
                snapshot, under: policy, for: prompt, presence
            ) { (session, _) throws(CryptokiError) in
                let key = try session.agreementKey(id: header.name.id)
                guard key.publicKey.fingerprint == header.publicKeyHash else {
                    throw CryptokiError(.keyReplaced, reason: "another key has the stored key's ID")
                }
                let point = try header.point()
                return try TouchHint(presence, for: prompt, on: session).during {
                    () throws(CryptokiError) in
                    try session.sharedSecret(of: key, with: point)
                }
            }
        }
    }

    /// The token in the module that can do key agreement: the same one, or the one of
    /// ``Token/agreementToken()``.
    ///
    /// A login there is never kept: it would be the card's login, which every program on the card
    /// could use.
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

    /// Generates the sealing key before the user logs in, if only the security officer may create
    /// keys.
    ///
    /// The key is recorded at once, while no other process can generate one, so that each process
    /// with the same store accepts it if the card does not attest it.
    private func generateSealingKey(
        _ pair: KeyPairRequest, _ snapshot: TokenSnapshot, _ prompt: PromptContext,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) {
        guard snapshot.module.generator == .securityOfficer else { return }
        let officer = try await officerProof(snapshot, for: prompt, presence)
        let attempt = GenerationAttempt(
            in: [PIVSlot(id: pair.id)].compactMap(\.self), for: pair.use)
        _ = try await asSecurityOfficer(officer, snapshot, attempt) {
            (session) throws(CryptokiError) -> PublicKey? in
            // The caller checks a key that another program created during the prompt.
            guard try !session.isOccupied(id: pair.id) else { return nil }
            if let slot = attempt.candidates.first { attempt.begin(slot) }
            return try session.generateKeyPair(pair).publicKey
        } recordedBy: { [anchors] (key) throws(CryptokiError) in
            if let key { try await anchors.record(key) }
        }
    }
}

/// The origin of a sealing key. A key that another program imported may have copies, and each copy
/// opens every secret that the key seals.
///
/// Yubico's attestation proves that the card generated a key. On a card without attestation, the
/// keystore accepts only a key that this process generated, or that ``anchors`` contains because
/// another process with the same store generated it. The public key identifies the key, even if the
/// slot contains another key later.
extension PKCS11Keystore {
    /// Refuses a policy under which the token can't seal in its present state. Does not prompt, and
    /// changes nothing.
    ///
    /// - Parameter publicKey: The public half of the existing sealing key, if any.
    private func checkSealingKey(
        _ pair: KeyPairRequest, _ publicKey: PublicKey?, _ snapshot: TokenSnapshot
    ) async throws(KeystoreError) {
        guard let publicKey else {
            try await snapshot.token.inspect { (session) throws(CryptokiError) in
                try session.checkKeyType(id: pair.id)
            }
            return try await checkGeneration(snapshot)
        }
        let isOwn = try await isOwn(publicKey)
        try await snapshot.token.inspect { (session) throws(CryptokiError) in
            do throws(CryptokiError) {
                _ = try session.checkOrigin(of: publicKey, pair, isOwn: isOwn)
            } catch {
                // A module that could not read the attestation shows none.
                try session.confirm(error.kind != .unsound)
                throw error
            }
        }
    }

    private func isOwn(_ publicKey: PublicKey?) async throws(KeystoreError) -> Bool {
        guard let publicKey else { return false }
        return try await anchors.anchor(publicKey.sealingAnchor) == publicKey.fingerprint
    }

    /// The policies under which the token can't seal by key agreement in its present state.
    func sealingRefusals(
        on token: TokenSnapshot
    ) async throws(KeystoreError) -> [AccessPolicy.Requirement: KeystoreCapabilities.SealingRefusal]
    {
        guard token.profile.isPIV else { return [:] }
        var refusals: [AccessPolicy.Requirement: KeystoreCapabilities.SealingRefusal] = [:]
        for requirement in token.profile.requirements {
            guard let policy = AccessPolicy(requirement) else { continue }
            let pair = KeyPairRequest(agreementUnder: policy, on: token.profile)
            do throws(KeystoreError) {
                let publicKey = try await token.token.inspect { (session) throws(CryptokiError) in
                    try session.publicKey(id: pair.id)
                }
                try await checkSealingKey(pair, publicKey, token)
            } catch {
                // These errors do not mean that the token refuses the policy.
                guard ![.unavailable, .transient, .cancelled].contains(error.code) else {
                    throw error
                }
                refusals[requirement] = KeystoreCapabilities.SealingRefusal(error)
            }
        }
        return refusals
    }
}

extension TrustAnchors {
    /// Records a generated sealing key.
    fileprivate func record(_ key: PublicKey) async throws(CryptokiError) {
        let value = try? await anchor(key.sealingAnchor, is: key.fingerprint)
        guard value == key.fingerprint else {
            throw CryptokiError(
                .locked, reason: "the store did not record the generated sealing key",
                recovery: "Check that the store can be written, then try again.")
        }
    }
}

extension PublicKey {
    /// The name of the record that Latchkey generated this sealing key on a card without
    /// attestation.
    fileprivate var sealingAnchor: String { "pkcs11.sealing-key.\(fingerprint.hexadecimal)" }
}

extension KeyPairRequest {
    /// A request for the P-256 sealing key of a policy.
    init(agreementUnder policy: AccessPolicy, on profile: TokenProfile) {
        let slot = policy.requirement == .none ? PIVSlot.cardAuthentication : .keyManagement
        self.init(
            sealing: .derive, id: profile.isPIV ? slot.id : Self.sealingID(for: policy, .agreement),
            policy: policy)
    }
}

/// Secrets that are signatures of an RSA key on the token, for tokens without ECDH.
///
/// Each header has one signature per key, and only the token can compute it, for sealing as for
/// opening. An attacker who can write the store but can't use the token can't create a box.
extension PKCS11Keystore {
    /// Signs a new header, with a new key if the token has none yet.
    func signForSecret(
        _ policy: AccessPolicy, _ snapshot: TokenSnapshot, _ prompt: PromptContext,
        _ presence: any PresenceAuthority
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
                terms: profile.terms(policy, isNew: generates), establishment: .signature,
                salt: salt)
            return (header, try session.signature(of: try header.statement(), with: key))
        }
    }

    /// Signs the header of a box again.
    func signedSecret(
        _ header: SealedBox.Header, _ prompt: PromptContext, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SecretBytes {
        try await header.name.explainingAbsence { () async throws(KeystoreError) in
            let snapshot = try await sealingSnapshot(for: header)
            return try await use(
                snapshot, under: header.terms.policy, for: prompt, presence
            ) { (session, _) throws(CryptokiError) in
                let key = try session.rsaKey(id: header.name.id)
                guard key.publicKey.fingerprint == header.publicKeyHash else {
                    throw CryptokiError(.keyReplaced, reason: "another key has the stored key's ID")
                }
                return try session.signature(of: try header.statement(), with: key)
            }
        }
    }

    /// Finds the token and the sealing key of a box, and checks that both are the stored ones.
    func sealingSnapshot(for header: SealedBox.Header) async throws(KeystoreError) -> TokenSnapshot
    {
        let name = header.name
        let policy = header.terms.policy
        guard header.establishment == .signature else {
            return try await checkedSnapshot(
                of: name, withHash: header.publicKeyHash, under: policy)
        }
        let snapshot = try await takeSnapshot(on: name)
        let publicKey = try await snapshot.token.inspect { (session) throws(CryptokiError) in
            try session.rsaPublicKey(id: name.id)
        }
        guard publicKey != nil || !snapshot.mayHideKeys(under: policy) || !name.hasSerial else {
            return snapshot
        }
        try name.check(header.publicKeyHash, found: publicKey?.fingerprint)
        return snapshot
    }
}

extension Session {
    /// The existing P-256 sealing key, or a new one.
    ///
    /// - Throws: `unsound` for a key that can be read, that was imported, or that needs a login
    ///   where the policy has none, or the reverse.
    fileprivate func agreementSealingKey(_ pair: KeyPairRequest) throws(CryptokiError) -> TokenKey {
        let key: TokenKey
        if try publicKey(id: pair.id) != nil || profile.generator != .user {
            key = try agreementKey(id: pair.id)
        } else {
            try checkCancellation()
            key = try generateKeyPair(pair)
        }
        try checkProtection(of: key, isGenerated: true)
        guard profile.usesSlotIDs || key.attributes.isPrivate == pair.isPrivate else {
            throw .unfitSealingKey
        }
        return key
    }

    /// Yubico's attestation, and not the slot, proves where a key was generated and when the card
    /// requires the PIN.
    ///
    /// - Parameter isOwn: Whether Latchkey generated the key on a card without attestation.
    /// - Returns: The attestation; nil for Latchkey's own key, and for a module that shows no
    ///   attestations.
    fileprivate func checkOrigin(
        of publicKey: PublicKey, _ pair: KeyPairRequest, isOwn: Bool
    ) throws(CryptokiError) -> PIVAttestation? {
        guard profile.family == .ykcs11 else { return nil }
        guard let attestation = try attestation(of: publicKey, id: pair.id) else {
            guard try !hasAttestationKey() else {
                throw CryptokiError(
                    .unsound, reason: "the card does not attest that it generated the sealing key")
            }
            guard isOwn else { throw .foreignSealingKey(pair) }
            return nil
        }
        guard let pin = attestation.pin, !pair.isPrivate || pin != .never else {
            throw CryptokiError(
                .unsound, reason: "the card does not attest that the sealing key needs the PIN")
        }
        return attestation
    }

    /// The existing RSA sealing key, or a new one, which takes seconds.
    ///
    /// - Throws: `unsound` for a key that can be read, or that needs a login where the policy has
    ///   none, or the reverse.
    fileprivate func signatureSealingKey(_ pair: KeyPairRequest) throws(CryptokiError)
        -> RSATokenKey
    {
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

extension CryptokiError {
    fileprivate static func foreignSealingKey(_ pair: KeyPairRequest) -> CryptokiError {
        let slot = PIVSlot(id: pair.id).map { " in the slot \($0)" } ?? ""
        return CryptokiError(
            .unsound,
            reason:
                "the card has no attestation, and the store has no record that Latchkey generated the sealing key\(slot): "
                + "the key may have a copy outside the card",
            recovery:
                "Use the store with which Latchkey generated the key, or another token. Secrets of other stores may need "
                + "the key. Only if there are none, delete it with the card's own program; Latchkey then generates another."
        )
    }
}
