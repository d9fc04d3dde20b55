internal import FoundationEssentials
public import Latchkey

extension PKCS11Keystore {
    public func sign(
        _ digest: MessageDigest, with key: HardwareKey, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> ECDSASignature {
        let operation = "sign"
        let blob = try TokenKeyBlob.of(key, operation)
        let signature: ECDSASignature
        if key.policy.requirement == .none,
            let first = try await signWithoutChecks(digest, key, blob, prompt, operation, presence)
        {
            signature = first
        } else {
            let snapshot = try await takeSnapshot(operation, for: blob.name, withHash: blob.publicKeyHash)
            let hint = TouchHint(presence, for: prompt, on: snapshot.token.module.profile.family)
            signature = try await use(
                snapshot, under: key.policy, for: prompt, operation, presence
            ) { (session, proof) throws(CryptokiError) in
                try session.sign(digest, with: key.publicKey, at: blob.name.id, proof, hint)
            }
        }
        guard key.publicKey.isValid(signature, for: digest) else { throw .wrongSignature(operation) }
        return signature
    }

    /// Signs without a snapshot: no prompt follows, so the signature itself shows whether token and key are the right ones.
    ///
    /// - Returns: nil if the token or the key changed; a snapshot then tells why.
    private func signWithoutChecks(
        _ digest: MessageDigest, _ key: HardwareKey, _ blob: TokenKeyBlob, _ prompt: PromptContext,
        _ operation: String, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> ECDSASignature? {
        let snapshot = try await cachedSnapshot(operation, for: blob.name)
        let hint = TouchHint(presence, for: prompt, on: snapshot.token.module.profile.family)
        do {
            return try await snapshot.token.perform { (session) throws(CryptokiError) in
                try session.sign(digest, with: key.publicKey, at: blob.name.id, nil, hint)
            }
        } catch {
            guard error.kind == .tokenAbsent || error.kind == .keyAbsent else {
                throw KeystoreError(error, during: operation, profile: snapshot.token.module.profile)
            }
            return nil
        }
    }
}

extension Session {
    /// Signs with the key that has this ID, if it is the expected one.
    fileprivate func sign(
        _ digest: MessageDigest, with publicKey: PublicKey, at id: Data, _ proof: LoginProof?, _ hint: TouchHint?
    ) throws(CryptokiError) -> ECDSASignature {
        let key = try key(id: id, publicKey: publicKey)
        return try hint.during { () throws(CryptokiError) in
            try sign(digest, with: key, proof: key.wantsProofAtUse ? proof : nil)
        }
    }

    /// The key with this ID.
    ///
    /// - Throws: `keyAbsent`, also if another key has the ID.
    func key(id: Data, publicKey: PublicKey) throws(CryptokiError) -> TokenKey {
        let key = try key(id: id)
        guard key.publicKey == publicKey else {
            throw CryptokiError(.keyAbsent, reason: "another key has its CKA_ID")
        }
        return key
    }
}
