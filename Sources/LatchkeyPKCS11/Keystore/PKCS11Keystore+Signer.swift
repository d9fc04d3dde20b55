public import Latchkey

extension PKCS11Keystore {
    /// Lends a key in a session that is kept open, for many signatures with one proof and without a change of threads.
    ///
    /// ```swift
    /// let signatures = try await keystore.withSigner(of: key, for: prompt, authorizedBy: presence) { signer in
    ///     try digests.map { try signer.sign($0) }
    /// }
    /// ```
    ///
    /// The person is asked once, before `body`. Nothing is repeated for `body`: when the token is lost, its signature
    /// throws, and the next call of the keystore finds the token again.
    ///
    /// - Parameter body: Runs on the token's own thread, and everything else that wants the token waits meanwhile. Don't
    ///   use the keystore in it.
    /// - Throws: What `body` throws; `KeystoreError` as ``sign(_:with:for:authorizedBy:)``, and `unsupported`, before
    ///   anybody is asked, for a key whose policy or token wants its PIN at each use.
    public func withSigner<R: Sendable>(
        of key: HardwareKey, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority,
        _ body: @escaping @Sendable (TokenSigner) throws -> R
    ) async throws -> R {
        let operation = "sign"
        let blob = try TokenKeyBlob.of(key, operation)
        guard blob.facts.alwaysAuthenticates != true else {
            throw KeystoreError.unsupported(
                operation, "the token wants the PIN for each single use of this key",
                recovery: "Sign one digest at a time, or make a key with a time of reuse.")
        }
        guard key.policy.allowsManyUses, blob.terms.policy.allowsManyUses else {
            throw KeystoreError.manyUses(operation)
        }
        let sight = try await look(operation, for: blob.name, withHash: blob.publicKeyHash)
        let (id, publicKey, profile) = (blob.name.id, key.publicKey, sight.token.profile)
        let outcome = try await use(sight, under: key.policy, for: prompt, operation, presence) {
            (session, _) throws(CryptokiError) -> Result<R, any Error> in
            let found = try session.key(id: id)
            guard found.publicKey == publicKey else {
                throw CryptokiError(.keyAbsent, reason: "another key is in its place")
            }
            let signer = TokenSigner(session, found, profile)
            return Result { try body(signer) }
        }
        return try outcome.get()
    }
}

extension AccessPolicy {
    /// Whether one proof may serve more than one use.
    var allowsManyUses: Bool { requirement == .none || reuseSeconds > 0 }
}

extension KeystoreError {
    /// A key is not lent for as many uses as one likes when its policy wants a proof for each.
    static func manyUses(_ operation: String) -> KeystoreError {
        .unsupported(
            operation, "the key's policy wants a proof for each single use",
            recovery: "Sign one digest at a time, or make a key with a time of reuse.")
    }
}
