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
        if key.policy.requirement == .none, let quick = try await signQuickly(digest, key, blob, prompt, presence) {
            signature = quick
        } else {
            let sight = try await look(operation, for: blob.name, withHash: blob.publicKeyHash)
            let hint = TouchHint(presence, for: prompt, on: sight.token.profile.family)
            signature = try await use(
                sight, under: key.policy, for: prompt, operation, presence
            ) { (session, proof) throws(CryptokiError) in
                try session.sign(digest, with: key.publicKey, at: blob.name.id, proof, hint)
            }
        }
        guard key.publicKey.isValid(signature, for: digest) else { throw .foreignSignature(operation) }
        return signature
    }

    /// Nobody is asked, so that nothing need be checked before: the use itself finds out.
    ///
    /// - Returns: nil when the token or the key is not as it was, which a closer look explains.
    private func signQuickly(
        _ digest: MessageDigest, _ key: HardwareKey, _ blob: TokenKeyBlob, _ prompt: PromptContext,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> ECDSASignature? {
        let sight = try await glance("sign", for: blob.name)
        let hint = TouchHint(presence, for: prompt, on: sight.token.profile.family)
        do {
            return try await sight.token.perform { (session) throws(CryptokiError) in
                try session.sign(digest, with: key.publicKey, at: blob.name.id, nil, hint)
            }
        } catch {
            guard error.kind == .tokenAbsent || error.kind == .keyAbsent else {
                throw failure(error, "sign", sight.token)
            }
            return nil
        }
    }
}

extension TokenKeyBlob {
    /// Reads a stored key, and holds what is said in the open against what the blob says.
    static func of(_ key: HardwareKey, _ operation: String) throws(KeystoreError) -> TokenKeyBlob {
        guard key.backend == PKCS11Keystore.backend else { throw .otherBackend(operation, key.backend) }
        let blob: TokenKeyBlob
        do {
            blob = try DigestedStructure.parsed(key.blob, as: TokenKeyBlob.self)
        } catch {
            throw .damaged(operation, "its stored bytes can't be read: \(error)")
        }
        guard blob.publicKeyHash == key.publicKey.fingerprint else {
            throw .damaged(operation, "its public key is not that of its stored bytes")
        }
        guard blob.terms == KeyTerms(policy: key.policy, assurance: key.assurance) else {
            throw .damaged(operation, "its policy or assurance is not that of its stored bytes")
        }
        try KeyBinding.check(blob.binding, of: key, operation)
        return blob
    }
}

extension Session {
    /// Signs with the key at an id, if it is the expected one.
    fileprivate func sign(
        _ digest: MessageDigest, with publicKey: PublicKey, at id: Data, _ proof: LoginProof?, _ hint: TouchHint?
    ) throws(CryptokiError) -> ECDSASignature {
        let key = try key(id: id)
        guard key.publicKey == publicKey else {
            throw CryptokiError(.keyAbsent, reason: "another key is in its place")
        }
        return try hint.during { () throws(CryptokiError) in
            try sign(digest, with: key, proof: key.wantsProofAtUse ? proof : nil)
        }
    }
}

extension TokenKey {
    /// Whether the token demands a proof between the start of a use and its end.
    var wantsProofAtUse: Bool { attributes.alwaysAuthenticates == true }
}

extension TouchHint? {
    /// Runs `body`, with a hint where there may be one.
    func during<R>(_ body: () throws(CryptokiError) -> R) throws(CryptokiError) -> R {
        guard let self else { return try body() }
        return try self.during(body)
    }
}

extension KeystoreError {
    static func foreignSignature(_ operation: String) -> KeystoreError {
        KeystoreError(
            operation: operation, code: .failed, reason: "the token's signature is not the key's",
            recovery: "Try again; if it stays, don't trust the token.")
    }

    static func otherBackend(_ operation: String, _ backend: String) -> KeystoreError {
        KeystoreError(
            operation: operation, code: .wrongDevice, reason: "it belongs to a keystore of the kind \(backend)",
            recovery: "Use it with the hardware on which it was made.")
    }
}
