internal import FoundationEssentials
internal import Latchkey

/// Secrets that are shared by ECDH with a P-256 key on the token.
///
/// On a PIV card it is the key in 9d (with a PIN) or 9e (without), which may be there for another purpose already:
/// agreeing on a point does it no harm.
extension PKCS11Keystore {
    /// Agrees on a new secret, with a new key where the token has none yet.
    func agreeOnSecret(
        _ policy: AccessPolicy, _ place: TokenSight, _ prompt: PromptContext, _ operation: String,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> EstablishedSecret {
        let id = agreementKeyID(for: policy, place.nature)
        let sight = try await agreeing(look(operation, for: id), operation)
        if sight.publicKey == nil {
            try await makeAgreementKeyAsOfficer(id, policy, sight, prompt, operation, presence)
        }
        let hint = TouchHint(presence, for: prompt, on: sight.token.profile.family)
        let pair = agreementKeyRequest(id, policy)
        let name = TokenName(place.information, id: id)
        let nature = place.nature
        let salt = SecretBytes.random(count: SealedBox.saltBytes).withUnsafeBytes { Data($0) }
        // Nobody but the token computes the secret: what is sealed was sealed with it, and with its PIN where it has one.
        let generates = sight.publicKey == nil && sight.token.profile.generator == .user
        return try await use(
            sight, under: policy, for: prompt, isExclusive: generates, operation, presence
        ) { (session, _) throws(CryptokiError) in
            let key = try session.sealingKey(pair)
            let needsTouch = try session.attestation(of: key)?.touch == .always
            let header = SealedBox.Header(
                name: name, publicKeyHash: key.publicKey.fingerprint,
                terms: KeyTerms(policy, on: nature, needsTouch: needsTouch), message: .agreement(salt: salt))
            let point = try header.point()
            let secret = try hint.during { () throws(CryptokiError) in
                try session.sharedSecret(of: key, with: point)
            }
            return EstablishedSecret(header: header, secret: secret)
        }
    }

    /// Has the token compute the secret of a box again.
    func agreedSecret(
        _ header: SealedBox.Header, _ prompt: PromptContext, _ operation: String,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SecretBytes {
        let sight = try await agreeing(
            look(operation, for: header.name, withHash: header.publicKeyHash), operation)
        let hint = TouchHint(presence, for: prompt, on: sight.token.profile.family)
        return try await use(
            sight, under: header.terms.policy, for: prompt, operation, presence
        ) { (session, _) throws(CryptokiError) in
            let key = try session.agreementKey(id: header.name.id)
            let point = try header.point()
            return try hint.during { () throws(CryptokiError) in try session.sharedSecret(of: key, with: point) }
        }
    }

    private func agreementKeyID(for policy: AccessPolicy, _ nature: TokenNature) -> Data {
        guard !nature.isPIV else {
            return (policy.requirement == .none ? PIVSlot.cardAuthentication : .keyManagement).id
        }
        return KeyPairRequest.sealingID(for: policy, version: 1)
    }

    private func agreementKeyRequest(_ id: Data, _ policy: AccessPolicy) -> KeyPairRequest {
        KeyPairRequest(sealing: .derive, id: id, policy: policy)
    }

    /// Where only the security officer may make keys, before the user logs in.
    private func makeAgreementKeyAsOfficer(
        _ id: Data, _ policy: AccessPolicy, _ sight: TokenSight, _ prompt: PromptContext, _ operation: String,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) {
        try await checkGeneration(sight, operation)
        guard sight.token.profile.generator == .securityOfficer else { return }
        let officer = try await officerProof(sight, for: prompt, operation, presence)
        let pair = agreementKeyRequest(id, policy)
        try await asOfficer(officer, sight, operation) { (session) throws(CryptokiError) in
            // Another program may have made one during the prompt: that one serves too.
            guard try !session.isOccupied(id: id) else { return }
            _ = try session.generateKeyPair(pair)
        }
    }
}

extension Session {
    /// The sealing key that is there, or a new one.
    ///
    /// - Throws: `unsound` for one that could be read, that was brought to the token, or that needs a login where the policy has none, or the reverse.
    fileprivate func sealingKey(_ pair: KeyPairRequest) throws(CryptokiError) -> TokenKey {
        let key: TokenKey
        if try publicKey(id: pair.id) != nil || profile.generator != .user {
            key = try agreementKey(id: pair.id)
        } else {
            try checkCancellation()
            key = try generateStrictest(pair)
        }
        try checkProtection(of: key, isGenerated: true)
        try checkAttestation(of: key, needsPIN: pair.isPrivate)
        guard profile.identifiers == .slot || key.attributes.isPrivate == pair.isPrivate else {
            throw .unfitSealingKey
        }
        return key
    }

    /// A slot's name is no proof of where its key comes from, nor of when the card wants the PIN: Yubico's attestation is.
    private func checkAttestation(of key: TokenKey, needsPIN: Bool) throws(CryptokiError) {
        guard profile.family == .ykcs11 else { return }
        guard let attestation = try attestation(of: key) else {
            throw CryptokiError(.unsound, reason: "the card does not attest that the sealing key was made in it")
        }
        guard let pin = attestation.pin, !needsPIN || pin != .never else {
            throw CryptokiError(.unsound, reason: "the card does not attest that the sealing key needs the PIN")
        }
    }
}
