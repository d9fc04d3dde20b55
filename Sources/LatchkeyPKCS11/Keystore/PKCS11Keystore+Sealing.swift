internal import Crypto
internal import FoundationEssentials
public import Latchkey

/// A token's own part of sealing: one key for each policy, made when it is first needed and shared by all secrets.
///
/// On a PIV card it is the key in 9d (with a PIN) or 9e (without), which may be there for another purpose already:
/// encrypting to it does it no harm.
extension PKCS11Keystore {
    public func seal(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SealedSecret {
        let operation = "seal a secret"
        guard secret.count == SealedBox.secretBytes else {
            throw .invalidInput(operation, "it has \(secret.count) bytes and must have \(SealedBox.secretBytes)")
        }
        let place = try await look(operation)
        try place.nature.check(policy, operation)
        try await checkAgreement(place.token, operation)
        let id = sealingKeyID(for: policy, place.nature)
        let sight = try await look(operation, for: id)
        if sight.publicKey == nil { try await makeSealingKeyAsOfficer(id, policy, sight, prompt, operation, presence) }
        let throwaway = P256.KeyAgreement.PrivateKey()
        let ephemeral = try PublicKey(x963Representation: throwaway.publicKey.x963Representation)
        let hint = TouchHint(presence, for: prompt, on: sight.token.profile.family)
        let pair = sealingKeyRequest(id, policy)
        // The token computes what we compute: a secret is sealed only when it is certain that it can be opened.
        let (publicKey, theirs) = try await use(
            sight, under: policy, for: prompt, operation, presence
        ) { (session, _) throws(CryptokiError) in
            let key = try session.sealingKey(pair)
            let shared = try hint.during { () throws(CryptokiError) in
                try session.sharedSecret(of: key, with: ephemeral)
            }
            return (key.publicKey, shared)
        }
        let header = SealedBox.Header(
            name: TokenName(sight.information, id: id), publicKeyHash: publicKey.fingerprint,
            terms: KeyTerms(
                policy: policy,
                assurance: AssuranceLevel(
                    root: sight.nature.root,
                    presence: sight.nature.presence(policy.requirement, needsTouch: false))),
            ephemeral: ephemeral)
        let ours = try agree(throwaway, with: publicKey, operation)
        guard ours == theirs else {
            throw KeystoreError(
                operation: operation, code: .failed, reason: "the token does not agree on a key as ECDH says",
                recovery: "Report this with the token's model; nothing was sealed.")
        }
        do {
            let box = try SealedBox(sealing: secret, header: header, sharedSecret: ours)
            return SealedSecret(
                backend: backend, policy: policy, assurance: header.terms.assurance,
                blob: try DigestedStructure.serialized(box))
        } catch {
            throw KeystoreError(
                operation: operation, code: .failed, reason: "it can't be encrypted: \(error)", recovery: "Try again.")
        }
    }

    public func unseal(
        _ secret: SealedSecret, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SecretBytes {
        let operation = "open a sealed secret"
        let box = try box(of: secret, operation)
        let header = box.header
        let sight = try await look(operation, for: header.name, withHash: header.publicKeyHash)
        let hint = TouchHint(presence, for: prompt, on: sight.token.profile.family)
        let shared = try await use(
            sight, under: header.terms.policy, for: prompt, operation, presence
        ) { (session, _) throws(CryptokiError) in
            let key = try session.key(id: header.name.id)
            return try hint.during { () throws(CryptokiError) in
                try session.sharedSecret(of: key, with: header.ephemeral)
            }
        }
        do {
            return try box.open(sharedSecret: shared)
        } catch {
            throw .damaged(operation, "its stored bytes don't open with the token's key")
        }
    }

    /// Reads a stored secret, and holds what is said in the open against what the box says.
    func box(of secret: SealedSecret, _ operation: String) throws(KeystoreError) -> SealedBox {
        guard secret.backend == backend else { throw .otherBackend(operation, secret.backend) }
        let box: SealedBox
        do {
            box = try DigestedStructure.parsed(secret.blob, as: SealedBox.self)
        } catch {
            throw .damaged(operation, "its stored bytes can't be read: \(error)")
        }
        guard box.header.terms == KeyTerms(policy: secret.policy, assurance: secret.assurance) else {
            throw .damaged(operation, "its policy or assurance is not that of its stored bytes")
        }
        return box
    }

    /// Refuses a token without key agreement before anybody is asked and anything is made.
    private func checkAgreement(_ token: Token, _ operation: String) async throws(KeystoreError) {
        let agrees: Bool
        do {
            agrees = try await token.perform { (session) throws(CryptokiError) in
                try session.supports(.ecdh1Derive)
            }
        } catch {
            throw failure(error, operation, token)
        }
        guard agrees else {
            throw .unsupported(
                operation, "the token's module has no key agreement (ECDH)",
                recovery: "Use a token that has, or keep in memory what would be stored.")
        }
    }

    private func sealingKeyID(for policy: AccessPolicy, _ nature: TokenNature) -> Data {
        guard !nature.isPIV else {
            return (policy.requirement == .none ? PIVSlot.cardAuthentication : .keyManagement).id
        }
        let access = policy.requirement == .none ? "open" : "guarded"
        return Data(SHA256.hash(data: Data("Latchkey sealing key 1: \(access)".utf8)).prefix(16))
    }

    private func sealingKeyRequest(_ id: Data, _ policy: AccessPolicy) -> KeyPairRequest {
        KeyPairRequest(
            id: id, label: "Latchkey sealing", use: .derive, isPrivate: policy.requirement != .none,
            alwaysAuthenticates: false)
    }

    /// Where only the security officer may make keys, before the user logs in.
    private func makeSealingKeyAsOfficer(
        _ id: Data, _ policy: AccessPolicy, _ sight: TokenSight, _ prompt: PromptContext, _ operation: String,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) {
        try await checkGeneration(sight, operation)
        guard sight.token.profile.generator == .securityOfficer else { return }
        let officer = try await officerProof(sight, for: prompt, operation, presence)
        let pair = sealingKeyRequest(id, policy)
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
    func sealingKey(_ pair: KeyPairRequest) throws(CryptokiError) -> TokenKey {
        let key: TokenKey
        if try publicKey(id: pair.id) != nil || profile.generator != .user {
            key = try self.key(id: pair.id)
        } else {
            try checkCancellation()
            key = try generateStrictest(pair)
        }
        try checkProtection(of: key)
        guard profile.identifiers == .slot || key.attributes.isPrivate == pair.isPrivate else {
            throw CryptokiError(.unsound, reason: "the sealing key on the token has another protection than asked for")
        }
        return key
    }
}
