internal import CLibP11
internal import FoundationEssentials
public import Latchkey
internal import LatchkeyPlatform
internal import Synchronization

extension PKCS11Keystore {
    /// Lends a key to code that uses OpenSSL, such as a TLS client, as an `EVP_PKEY` whose private
    /// half stays on the token.
    ///
    /// ```swift
    /// let result = try await keystore.withEVPKey(
    ///     of: key, for: prompt, authorizedBy: presence
    /// ) { evpKey in
    ///     SSL_CTX_use_PrivateKey(context, evpKey)
    ///     …
    /// }
    /// ```
    ///
    /// Prompts once, before `body`. A key that requires its PIN for each use
    /// (`CKA_ALWAYS_AUTHENTICATE`) makes one signature in `body`; the second one fails. libp11
    /// makes the signatures, ECDSA over P-256 in DER.
    ///
    /// - Parameters:
    ///   - limit: The maximum time for `body`. The token waits for it. After the limit OpenSSL can
    ///     no longer use this module in this process.
    ///   - body: Runs on a separate thread, which may block. The pointer is an `EVP_PKEY *` of
    ///     OpenSSL 3 (`libcrypto`, not a library with the same symbols) and is valid until `body`
    ///     returns; a later use crashes. Do not use the keystore in `body`: it would wait forever.
    /// - Throws: Errors of `body`; `KeystoreError` as ``sign(_:with:for:authorizedBy:)``, and
    ///   `unsupported`, before any prompt, for an isolated module, and for a key whose policy
    ///   requires the PIN for each use if the token does not enforce that; after the prompt,
    ///   `unsupported` if libp11 (`libp11.so.3`) is not installed.
    public func withEVPKey<R: Sendable>(
        of key: HardwareKey, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority,
        within limit: Duration = .seconds(60),
        _ body: @escaping @Sendable (OpaquePointer) throws -> R
    ) async throws -> R {
        let outcome: Result<R, any Error>
        do throws(KeystoreError) {
            outcome = try await useWithOpenSSL(
                key, for: prompt, authorizedBy: presence, within: limit, body)
        } catch {
            throw error.during("use a key with OpenSSL")
        }
        return try outcome.get()
    }

    /// - Returns: The result or error of `body`.
    private func useWithOpenSSL<R: Sendable>(
        _ key: HardwareKey, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority,
        within limit: Duration, _ body: @escaping @Sendable (OpaquePointer) throws -> R
    ) async throws(KeystoreError) -> Result<R, any Error> {
        let blob = try TokenKeyBlob.of(key)
        let policy = blob.terms.policy
        // If a key requires its PIN for each use, the token itself enforces one signature per
        // proof.
        guard blob.alwaysAuthenticates || policy.allowsManyUses else {
            throw .unsupported(
                "the key's policy requires the PIN for each use",
                recovery: "Sign one digest at a time, or create a key with a reuse time.")
        }
        let snapshot = try await checkedSnapshot(
            of: blob.name, withHash: blob.publicKeyHash, under: policy)
        guard !snapshot.token.module.isIsolated else {
            throw .unsupported(
                "the token's module runs in a separate process, where OpenSSL can't use it",
                recovery: Recovery(
                    "Run it in this process (TokenOptions.isolation = .never).", .useModuleHere))
        }
        let (id, publicKey) = (blob.name.id, key.publicKey)
        return try await use(snapshot, under: policy, for: prompt, presence) {
            (session, proof) throws(CryptokiError) in
            let found = try session.key(id: id, publicKey: publicKey)
            // The attribute may have changed since the key was stored.
            guard found.wantsProofAtUse || policy.allowsManyUses else {
                throw CryptokiError(
                    .unsound, reason: "the key no longer requires its PIN for each use")
            }
            let loan = EVPKeyLoan(
                token: snapshot.token, id: id, publicKey: publicKey,
                proof: found.wantsProofAtUse ? proof : nil,
                limit: limit)
            return try loan.lend(body)
        }
    }
}

extension AccessPolicy {
    /// Whether one proof may be used for more than one use.
    fileprivate var allowsManyUses: Bool { requirement == .none || reuseSeconds > 0 }
}

/// Lends a key on a token to OpenSSL: an `EVP_PKEY` whose private half stays on the token.
///
/// libp11 opens additional sessions. They see the private key because they belong to the same
/// PKCS#11 application as the token's session, which is logged in. An isolated module would be
/// another application.
struct EVPKeyLoan: Sendable {
    let token: Token
    let id: Data
    let publicKey: PublicKey
    /// The proof for one signature of a key that requires the PIN for each use.
    let proof: LoginProof?
    /// The maximum time for `body`.
    let limit: Duration

    /// Lends the key to `body` on a separate thread, while the token's thread, on which this is
    /// called, waits.
    ///
    /// libp11 0.4.12 waits forever after a failed `C_OpenSession`, and a module may hang. A thread
    /// that does not return in time is abandoned.
    ///
    /// - Returns: The result or error of `body`.
    /// - Throws: Errors before `body` is called, so that it may be called again; `timedOut`, and
    ///   afterwards always `unresponsive`.
    func lend<R: Sendable>(
        _ body: @escaping @Sendable (OpaquePointer) throws -> R
    ) throws(CryptokiError) -> Result<R, any Error> {
        let proof = ContextProof(self.proof)
        // A `body` that exceeded the limit must not sign any more.
        defer { proof.revoke() }
        guard !Self.hanging.withLock({ $0.contains(token.module.path) }) else {
            throw .unresponsive(by: "libp11")
        }
        // The module is not finalized before the thread has returned.
        _ = try token.module.beginCall(waitingAtMost: limit)
        let outcome = BlockingThread.run(within: limit, unstarted: token.module.endCall) { [self] in
            defer { token.module.endCall() }
            return Result { () throws(CryptokiError) in try lendHere(proof, body) }
        }
        guard let outcome else {
            Self.hanging.withLock { _ = $0.insert(token.module.path) }
            throw .timedOut(in: "libp11")
        }
        return try outcome.get()
    }

    /// The modules for which libp11 is no longer called.
    private static let hanging = Mutex<Set<String>>([])

    private func lendHere<R: Sendable>(
        _ proof: ContextProof, _ body: @Sendable (OpaquePointer) throws -> R
    ) throws(CryptokiError) -> Result<R, any Error> {
        let context: LibP11Context
        let key: OpaquePointer
        do throws(CryptokiError) {
            context = try LibP11Context.of(token)
            key = try context.privateKey(id: id, publicKey: publicKey, on: token.information)
        } catch {
            LibP11Context.abandon(token)
            throw error
        }
        proof.offer(to: context)
        defer {
            ContextProof.withdraw(from: context.pointer, context.library)
            EVP_PKEY_free(key)
        }
        ERR_clear_error()
        // libp11 has a bare pointer to the proof.
        let outcome = withExtendedLifetime(proof) { Result { try body(key) } }
        if case .failure = outcome, LibP11Error.take("EVP_PKEY").returnValue != nil {
            // libp11 0.4.12 would keep sessions that may be invalid after an error of the module.
            LibP11Context.abandon(token)
        }
        return outcome
    }
}

/// The PIN for one signature of an always-authenticating key (`CKA_ALWAYS_AUTHENTICATE`), given to
/// libp11 once.
///
/// libp11 requests it through an OpenSSL `UI_METHOD`. This process has one such method, which never
/// falls back to OpenSSL's own prompt on the terminal: without a proof the request fails.
final class ContextProof: Sendable {
    private let proof: Mutex<LoginProof?>

    init(_ proof: LoginProof?) { self.proof = Mutex(proof) }

    /// Makes libp11 request this proof, until ``withdraw(from:_:)``.
    func offer(to context: LibP11Context) {
        _ = context.library.setInterface(
            context.pointer, Self.method, Unmanaged.passUnretained(self).toOpaque())
    }

    /// Makes requests of libp11 fail.
    static func withdraw(from context: LibP11.Context, _ library: LibP11) {
        _ = library.setInterface(context, method, nil)
    }

    /// Forgets the proof, also if libp11 can still request it.
    func revoke() { proof.withLock { $0 = nil } }

    private func answer(_ interface: OpaquePointer?, _ prompt: OpaquePointer?) -> Int32 {
        guard let proof = proof.withLock({ $0.take() }) else { return 0 }
        return proof.withBytes { bytes, count in
            guard let bytes else { return 0 }
            let proof = UnsafeRawBufferPointer(start: bytes, count: Int(count))
            // OpenSSL reads up to a zero byte, which this copy in locked memory has.
            let terminated = SecretBytes(count: proof.count + 1) { $0.copyMemory(from: proof) }
            return terminated.withUnsafeBytes {
                UI_set_result(
                    interface, prompt, $0.assumingMemoryBound(to: CChar.self).baseAddress) == 0
                    ? 1 : 0
            }
        }
    }

    /// Created once and never freed. libp11 checks the length, 4 to 32 bytes.
    private nonisolated(unsafe) static let method: OpaquePointer? = {
        let method = UI_create_method("Latchkey")
        _ = UI_method_set_reader(method) { interface, prompt in
            // Answer only prompts, and ignore texts to be shown.
            guard UI_get_string_type(prompt) == UIT_PROMPT else { return 1 }
            guard let proof = UI_get0_user_data(interface) else { return 0 }
            return Unmanaged<ContextProof>.fromOpaque(proof).takeUnretainedValue().answer(
                interface, prompt)
        }
        return method
    }()
}
