public import Latchkey

extension PKCS11Keystore {
    /// Lends a key to code that works with OpenSSL, such as a TLS client: as an `EVP_PKEY` whose private half stays on the
    /// token.
    ///
    /// ```swift
    /// let signature = try await keystore.withEVPKey(of: key, for: prompt, authorizedBy: presence) { evpKey in
    ///     SSL_CTX_use_PrivateKey(context, evpKey)
    ///     …
    /// }
    /// ```
    ///
    /// The person is asked once, before `body`. A key that wants its PIN at each use (`CKA_ALWAYS_AUTHENTICATE`) makes
    /// one signature in `body`; the second one fails. libp11 makes the signatures, ECDSA over P-256 in DER.
    ///
    /// - Parameters:
    ///   - limit: How long `body` may take. The token waits for it; one that does not come back is left behind, and
    ///     OpenSSL can't use this module any more in this process.
    ///   - body: Runs on a thread of its own, which may block. The pointer is an `EVP_PKEY *` of OpenSSL 3 (`libcrypto`,
    ///     not a library that takes its names) and is valid until `body` returns; what keeps it longer crashes. Don't use
    ///     the keystore in `body`: it waits.
    /// - Throws: What `body` throws; `KeystoreError` as ``sign(_:with:for:authorizedBy:)``, and `unsupported`, before
    ///   anybody is asked, for a module in a process of its own, and for a key whose policy wants a PIN for each use
    ///   where the token does not see to that itself.
    public func withEVPKey<R: Sendable>(
        of key: HardwareKey, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority,
        within limit: Duration = .seconds(60), _ body: @escaping @Sendable (OpaquePointer) throws -> R
    ) async throws -> R {
        let operation = "use a key with OpenSSL"
        let blob = try TokenKeyBlob.of(key, operation)
        let policy = blob.terms.policy
        // Of a key that wants its PIN at each use the token itself sees to it that one proof makes one signature.
        guard blob.facts.alwaysAuthenticates == true || policy.allowsManyUses else {
            throw KeystoreError.manyUses(operation)
        }
        let sight = try await look(operation, for: blob.name, withHash: blob.publicKeyHash)
        guard !sight.token.module.isIsolated else {
            throw KeystoreError.unsupported(
                operation, "the token's module runs in a process of its own, where OpenSSL can't follow it",
                recovery: "Have it run in this process: --token-isolation never (TokenOptions.isolation = .never).")
        }
        let (id, publicKey) = (blob.name.id, key.publicKey)
        let outcome = try await use(sight, under: policy, for: prompt, operation, presence) {
            (session, proof) throws(CryptokiError) in
            let found = try session.key(id: id)
            guard found.publicKey == publicKey else {
                throw CryptokiError(.keyAbsent, reason: "another key is in its place")
            }
            // Also of a key that the token has changed its mind about.
            guard found.wantsProofAtUse || policy.allowsManyUses else {
                throw CryptokiError(.unsound, reason: "the key does not want its PIN at each use any more")
            }
            let loan = EVPKeyLoan(
                token: sight.token, id: id, publicKey: publicKey, proof: found.wantsProofAtUse ? proof : nil,
                limit: limit)
            return try loan.lend(body)
        }
        return try outcome.get()
    }
}
