internal import FoundationEssentials
public import Latchkey
internal import Synchronization

extension PKCS11Keystore {
    /// Uses a private key under a policy. Prompts first if the policy requires it and no earlier
    /// proof may be reused; holds the token only afterwards. Prompts also for a key without a PIN
    /// if the token creates and deletes keys only after a login.
    ///
    /// - Parameters:
    ///   - isExclusive: Whether `body` may generate a key with an ID that another process may
    ///     choose too.
    ///   - body: Runs on the token's thread, perhaps twice: one whole operation. Gets the proof for
    ///     keys that require one for each use.
    func use<R: Sendable>(
        _ snapshot: TokenSnapshot, under policy: AccessPolicy, for prompt: PromptContext,
        isExclusive: Bool = false,
        _ presence: any PresenceAuthority,
        _ body: @escaping @Sendable (Session, LoginProof?) throws(CryptokiError) -> R
    ) async throws(KeystoreError) -> R {
        let (token, login) = (snapshot.token, snapshot.token.login)
        let window = ReuseWindow(
            seconds: snapshot.keepsLogin ? policy.reuseSeconds : 0, endings: login.endings)
        let needsLogin = policy.requirement != .none
        if !needsLogin || presence.acceptsEarlierProof && login.isFresh(within: window.seconds) {
            do {
                return try await token.withSession(isExclusive: isExclusive) {
                    (session) throws(CryptokiError) in
                    if needsLogin {
                        guard login.isFresh(within: window.seconds),
                            try session.loggedInRole() == .user
                        else {
                            throw CryptokiError(.loginNeeded, reason: "the login has ended")
                        }
                    }
                    return try body(session, nil)
                }
            } catch {
                guard needsLogin ? error.kind == .loginNeeded : error.needsLoginToWrite else {
                    throw await explained(error, snapshot, presence)
                }
            }
        }
        let proof = try await userProof(snapshot, for: prompt, presence)
        do {
            return try await token.withLogin(
                .user, proof, keptFor: window, isExclusive: isExclusive
            ) {
                (session) throws(CryptokiError) in
                presence.accepted()
                return try body(session, proof)
            }
        } catch {
            throw await explained(error, snapshot, presence)
        }
    }

    /// Generates a key as the security officer. No other process of this user does so at the same
    /// time, and the session shows the current objects of the token.
    func asSecurityOfficer<R: Sendable>(
        _ proof: LoginProof, _ snapshot: TokenSnapshot, _ attempt: GenerationAttempt,
        _ body: @escaping @Sendable (Session) throws(CryptokiError) -> R
    ) async throws(KeystoreError) -> R {
        do {
            return try await snapshot.token.withLogin(
                .securityOfficer, proof, isExclusive: true, body)
        } catch {
            if let failure = await attempt.failure(error, snapshot) { throw failure }
            throw await officerError(error, snapshot)
        }
    }
}

extension CryptokiError {
    /// Whether the token refused to create or delete an object without a login.
    fileprivate var needsLoginToWrite: Bool {
        let writers = ["C_GenerateKeyPair", "C_CreateObject", "C_DestroyObject"]
        return returnValue == .userNotLoggedIn && function.map(writers.contains) == true
    }
}

extension Token {
    /// Runs `body` on the token's thread, for work that uses no private key.
    func inspect<R: Sendable>(
        _ body: @escaping @Sendable (Session) throws(CryptokiError) -> R
    ) async throws(KeystoreError) -> R {
        do {
            return try await withSession(body)
        } catch {
            throw KeystoreError(error, profile: module.profile)
        }
    }

    /// Restarts the module, so that it reads the token's state again.
    ///
    /// - Parameter afterSettling: Whether to wait first until the system has noticed a removal.
    func readAgain(afterSettling: Bool = false) async throws(KeystoreError) {
        do {
            try await restartModule(afterSettling: afterSettling)
        } catch {
            throw KeystoreError(error, profile: module.profile)
        }
    }
}

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

/// The state of a token when an operation began.
struct TokenSnapshot: Sendable {
    var token: Token
    let information: TokenInformation
    let profile: TokenProfile
    /// The public half of the key that was looked for, if the token has it.
    let publicKey: PublicKey?
    /// Whether the policy's reuse time applies here.
    var keepsLogin = true

    var module: ModuleProfile { token.module.profile }

    /// Whether an occupied slot can be detected. YubiKeys report it from firmware 5.3 on, which
    /// ykcs11 writes as 5.30; before, a key without a certificate is invisible.
    var showsOccupiedSlots: Bool {
        module.family != .ykcs11 || information.firmwareVersion >= .init(major: 5, minor: 30)
    }
}

extension PKCS11Keystore {
    /// Reads the token's state and the public half of a key. Needs no login.
    ///
    /// If the token, the key or its public half is not the expected one, the module is restarted
    /// and the token is read again: a module that caches the token's objects may have read them
    /// while the card was removed, or before another program changed them.
    ///
    /// - Parameters:
    ///   - name: The expected token, if any. A different token is refused before it is used.
    ///   - publicKeyHash: The hash of the expected public half. The caller checks it.
    func takeSnapshot(
        for id: Data? = nil, on name: TokenName? = nil, withHash publicKeyHash: Data? = nil
    ) async throws(KeystoreError) -> TokenSnapshot {
        let token = try await locator.token().token
        do throws(KeystoreError) {
            let snapshot = try await readSnapshot(for: id, on: name)
            let isExpected =
                switch snapshot.publicKey?.fingerprint {
                case nil: id == nil
                case let found?: publicKeyHash == nil || found == publicKeyHash
                }
            guard snapshot.module.cachesStaleState, !isExpected else { return snapshot }
        } catch {
            guard token.module.profile.cachesStaleState, error.code == .wrongDevice else {
                throw error
            }
        }
        try await token.readAgain(afterSettling: true)
        locator.forget()
        return try await readSnapshot(for: id, on: name)
    }

    private func readSnapshot(for id: Data?, on name: TokenName?) async throws(KeystoreError)
        -> TokenSnapshot
    {
        let (token, wasKnown) = try await locator.token()
        let failure: KeystoreError
        do throws(CryptokiError) {
            if let name, !name.fits(token) {
                try token.information.checkWasRead(by: token.module.profile)
                failure = .otherToken(wanted: name, found: token.information, through: token.module)
            } else {
                let (information, publicKey) = try await token.withSession {
                    (session) throws(CryptokiError) in
                    let information = try session.tokenInformation()
                    try information.checkWasRead(by: session.profile)
                    return (
                        information,
                        try id.flatMap { (id) throws(CryptokiError) in try session.publicKey(id: id)
                        }
                    )
                }
                return TokenSnapshot(
                    token: token, information: information,
                    profile: TokenProfile(
                        token.module.profile, information: information, options: options),
                    publicKey: publicKey)
            }
        } catch {
            failure = KeystoreError(error, profile: token.module.profile)
            // A token that was found while the card was removed has no serial number, and the
            // module keeps it.
            let wasRead = (try? token.information.checkWasRead(by: token.module.profile)) != nil
            guard error.kind == .tokenAbsent || !wasRead else { throw failure }
            locator.forget()
            if !wasRead { try await token.readAgain() }
        }
        // The known token was removed; the same URI may match another one now, or once the right
        // one is plugged in.
        locator.forget()
        guard wasKnown else { throw failure }
        return try await readSnapshot(for: id, on: name)
    }

    /// Finds the token and the key of a stored record, and checks that both are the stored ones.
    func checkedSnapshot(of name: TokenName, withHash publicKeyHash: Data)
        async throws(KeystoreError) -> TokenSnapshot
    {
        let snapshot = try await takeSnapshot(for: name.id, on: name, withHash: publicKeyHash)
        try name.check(publicKeyHash, found: snapshot.publicKey?.fingerprint)
        return snapshot
    }
}

extension TokenInformation {
    /// ykcs11 reports firmware 0.0 if it could not read the card, for example after its removal or
    /// during another program's reset.
    func checkWasRead(by profile: ModuleProfile) throws(CryptokiError) {
        guard profile.family != .ykcs11 || firmwareVersion.major > 0 else {
            throw CryptokiError(.deviceError, from: "C_GetTokenInfo")
        }
    }
}

extension TokenName {
    /// Checks the hash of a key's public half on the token; nil if the token has no key with this
    /// ID.
    ///
    /// - Throws: ``KeystoreError`` with code `notFound`, `invalidated` or `wrongDevice`.
    func check(_ publicKeyHash: Data, found: Data?) throws(KeystoreError) {
        guard let found else { throw .keyGone(self) }
        guard found == publicKeyHash else { throw .keyReplaced(self) }
    }
}

/// Finds the token of a URI when it is first used, and again after it was lost.
final class TokenLocator: Sendable {
    private let uri: TokenURI
    private let options: TokenOptions
    private let found = Mutex<Token?>(nil)

    init(uri: TokenURI, options: TokenOptions) {
        self.uri = uri
        self.options = options
    }

    /// The token, and whether it was known before this call.
    func token() async throws(KeystoreError) -> (token: Token, wasKnown: Bool) {
        if let token = known { return (token, true) }
        do {
            let token = try await Token.find(uri, options: options)
            found.withLock { $0 = token }
            return (token, false)
        } catch {
            throw KeystoreError(error)
        }
    }

    /// The token, if it was found already.
    var known: Token? { found.withLock { $0 } }

    /// Makes the next call look for the token again.
    func forget() { found.withLock { $0 = nil } }
}
