internal import Crypto
internal import FoundationEssentials
internal import Latchkey

/// Secrets that are shared by ECDH with a P-256 key on the token.
///
/// On a PIV card it is the key in 9d (with a PIN) or 9e (without), which may be there for another purpose already:
/// encrypting to it does it no harm.
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
        let throwaway = P256.KeyAgreement.PrivateKey()
        let ephemeral = try PublicKey(x963Representation: throwaway.publicKey.x963Representation)
        let hint = TouchHint(presence, for: prompt, on: sight.token.profile.family)
        let pair = agreementKeyRequest(id, policy)
        // The token computes what we compute: a secret is sealed only when it is certain that it can be opened.
        let (publicKey, theirs, needsTouch) = try await use(
            sight, under: policy, for: prompt, operation, presence
        ) { (session, _) throws(CryptokiError) in
            let key = try session.sealingKey(pair)
            let shared = try hint.during { () throws(CryptokiError) in
                try session.sharedSecret(of: key, with: ephemeral)
            }
            return (key.publicKey, shared, try session.attestation(of: key)?.touch == .always)
        }
        let ours = try agree(throwaway, with: publicKey, operation)
        guard ours == theirs else {
            throw KeystoreError(
                operation: operation, code: .failed, reason: "the token does not agree on a key as ECDH says",
                recovery: "Report this with the token's model; nothing was sealed.")
        }
        return EstablishedSecret(
            keyID: id, publicKeyHash: publicKey.fingerprint, message: .agreement(ephemeral),
            needsTouch: needsTouch, secret: ours)
    }

    /// Finds out again what a throw-away key agreed on.
    func agreedSecret(
        _ header: SealedBox.Header, _ ephemeral: PublicKey, _ prompt: PromptContext, _ operation: String,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SecretBytes {
        let sight = try await agreeing(
            look(operation, for: header.name, withHash: header.publicKeyHash), operation)
        let hint = TouchHint(presence, for: prompt, on: sight.token.profile.family)
        return try await use(
            sight, under: header.terms.policy, for: prompt, operation, presence
        ) { (session, _) throws(CryptokiError) in
            let key = try session.agreementKey(id: header.name.id)
            return try hint.during { () throws(CryptokiError) in try session.sharedSecret(of: key, with: ephemeral) }
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
            _ = try session.generateKeyPair(pair)
        }
    }

    private func agree(
        _ throwaway: P256.KeyAgreement.PrivateKey, with key: PublicKey, _ operation: String
    ) throws(KeystoreError) -> SecretBytes {
        do {
            let peer = try P256.KeyAgreement.PublicKey(x963Representation: key.x963Representation)
            return try throwaway.sharedSecretFromKeyAgreement(with: peer).withUnsafeBytes { SecretBytes($0) }
        } catch {
            throw .damaged(operation, "the token's key is not one to agree with")
        }
    }
}

extension Session {
    /// The sealing key that is there, or a new one.
    ///
    /// - Throws: `unsound` for one that could be read, or that needs a login where the policy has none, or the reverse.
    fileprivate func sealingKey(_ pair: KeyPairRequest) throws(CryptokiError) -> TokenKey {
        let key: TokenKey
        if try publicKey(id: pair.id) != nil || profile.generator != .user {
            key = try agreementKey(id: pair.id)
        } else {
            try checkCancellation()
            key = try generateStrictest(pair)
        }
        try checkProtection(of: key)
        guard profile.identifiers == .slot || key.attributes.isPrivate == pair.isPrivate else {
            throw .unfitSealingKey
        }
        return key
    }
}
