public import Latchkey

extension PKCS11Keystore {
    public func sign(
        _ digest: MessageDigest, with key: HardwareKey, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> ECDSASignature {
        do throws(KeystoreError) {
            let blob = try decodedKey.value(of: key) { () throws(KeystoreError) in
                try TokenKeyBlob.of(key)
            }
            let sign = {
                @Sendable (session: Session, proof: LoginProof?) throws(CryptokiError)
                    -> ECDSASignature in
                let found = try session.key(id: blob.name.id, publicKey: key.publicKey)
                return try TouchHint(presence, for: prompt, on: session).during {
                    () throws(CryptokiError) in
                    try session.sign(
                        digest, with: found, proof: found.wantsProofAtUse ? proof : nil)
                }
            }
            var signature: ECDSASignature?
            if key.policy.requirement == .none {
                signature = try await useKnownToken(of: blob.name) {
                    (session) throws(CryptokiError) in
                    try sign(session, nil)
                }
            }
            if signature == nil {
                let snapshot = try await checkedSnapshot(
                    of: blob.name, withHash: blob.publicKeyHash)
                signature = try await use(snapshot, under: key.policy, for: prompt, presence, sign)
            }
            guard let signature, key.publicKey.isValid(signature, for: digest) else {
                throw .wrongSignature
            }
            return signature
        } catch {
            throw error.during("sign")
        }
    }

    /// Uses a key without a PIN, and reads the token only if it is not known yet. No prompt
    /// follows, so the signature itself shows whether token and key are the right ones.
    ///
    /// - Returns: nil if the token or the key is another one; a snapshot then tells why.
    private func useKnownToken<R: Sendable>(
        of name: TokenName, _ body: @escaping @Sendable (Session) throws(CryptokiError) -> R
    ) async throws(KeystoreError) -> R? {
        let token = try await locator.token().token
        guard name.fits(token) else { return nil }
        do {
            return try await token.withSession(body)
        } catch {
            guard [.tokenAbsent, .keyAbsent, .otherKeyType].contains(error.kind) else {
                throw KeystoreError(error, profile: token.module.profile)
            }
            return nil
        }
    }
}

/// Tells the user to touch the token if an operation takes longer than one without a touch. The
/// token does not report that it waits.
struct TouchHint: Sendable {
    /// The delay before the notice, the same as in Yubico's programs.
    static let delay = Duration.milliseconds(500)

    private let presence: any PresenceAuthority
    private let notice: PresenceNotice
    private let reader: String?
    let mayWaitForTouch: Bool

    init(_ presence: any PresenceAuthority, for prompt: PromptContext, on session: Session) {
        self.init(presence, for: prompt, on: session.profile, reader: session.call.reader)
    }

    /// - Parameter reader: The card's reader. There is no notice if it has no card.
    init(
        _ presence: any PresenceAuthority, for prompt: PromptContext, on module: ModuleProfile,
        reader: String? = nil
    ) {
        self.presence = presence
        notice = .touch(prompt)
        self.reader = reader
        mayWaitForTouch = module.family != .softhsm && module.family != .tpm2
    }

    /// Runs `body` on the token's thread, and sends the notice if it has not returned after
    /// ``delay``.
    func during<R>(_ body: () throws(CryptokiError) -> R) throws(CryptokiError) -> R {
        guard mayWaitForTouch else { return try body() }
        // Unstructured on purpose: the token's thread blocks and can't wait for a child task.
        let task = Task { [presence, notice, reader] in
            guard (try? await Task.sleep(for: Self.delay)) != nil else { return }
            if let reader, await CardReset.findsNoCard(in: reader) { return }
            guard !Task.isCancelled else { return }
            await presence.notice(notice)
        }
        defer { task.cancel() }
        return try body()
    }
}
