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
        let isReusable = snapshot.keepsLogin && presence.acceptsEarlierProof
        let window = ReuseWindow(
            seconds: isReusable ? policy.reuseSeconds : 0, endings: login.endings)
        let needsLogin = policy.requirement != .none
        if !needsLogin || login.isFresh(within: window.seconds) {
            do {
                return try await token.exclusively(if: isExclusive) { () throws(CryptokiError) in
                    try await token.withSession { (session) throws(CryptokiError) in
                        if needsLogin {
                            guard login.isFresh(within: window.seconds),
                                try session.loggedInRole() == .user
                            else {
                                throw CryptokiError(.loginNeeded, reason: "the login has ended")
                            }
                        }
                        return try body(session, nil)
                    }
                }
            } catch {
                guard needsLogin ? error.kind == .loginNeeded : error.needsLoginToWrite else {
                    throw await explained(error, snapshot, presence)
                }
            }
        }
        let proof = try await userProof(snapshot, for: prompt, presence)
        do {
            return try await token.exclusively(if: isExclusive) { () throws(CryptokiError) in
                try await token.withLogin(.user, proof, keptFor: window) {
                    (session) throws(CryptokiError) in
                    presence.accepted()
                    return try body(session, proof)
                }
            }
        } catch {
            throw await explained(error, snapshot, presence)
        }
    }

    /// Generates a key as the security officer. No other process of this user does so at the same
    /// time, and the session shows the current objects of the token.
    ///
    /// - Parameter record: Records the key before another process can generate one.
    func asSecurityOfficer<R: Sendable>(
        _ proof: LoginProof, _ snapshot: TokenSnapshot, _ attempt: GenerationAttempt,
        _ body: @escaping @Sendable (Session) throws(CryptokiError) -> R,
        recordedBy record: @escaping @Sendable (R) async throws(CryptokiError) -> Void = { _ in }
    ) async throws(KeystoreError) -> R {
        do {
            return try await snapshot.token.exclusively { () throws(CryptokiError) in
                // A task of its own, so that a key is recorded after the user's task was cancelled.
                try await Task { () async -> Result<R, CryptokiError> in
                    do throws(CryptokiError) {
                        let result = try await snapshot.token.withLogin(
                            .securityOfficer, proof, body)
                        try await record(result)
                        return .success(result)
                    } catch {
                        return .failure(error)
                    }
                }.value.get()
            }
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
            let signature =
                if key.policy.requirement == .none {
                    try await useKnownToken(of: blob) { (session) throws(CryptokiError) in
                        try sign(session, nil)
                    }
                } else {
                    try await blob.name.explainingAbsence { () async throws(KeystoreError) in
                        try await use(
                            checkedSnapshot(
                                of: blob.name, withHash: blob.publicKeyHash, under: key.policy),
                            under: key.policy, for: prompt, presence, sign)
                    }
                }
            guard key.publicKey.isValid(signature, for: digest) else {
                throw .wrongSignature
            }
            return signature
        } catch {
            throw error.during("sign")
        }
    }

    /// Uses a key without a PIN, and reads the token only to explain a failure. No prompt follows,
    /// so the signature itself shows whether token and key are the right ones.
    private func useKnownToken<R: Sendable>(
        of blob: TokenKeyBlob, _ body: @escaping @Sendable (Session) throws(CryptokiError) -> R
    ) async throws(KeystoreError) -> R {
        do throws(KeystoreError) {
            return try await locator.withToken(named: blob.name) { (token) throws(CryptokiError) in
                try await token.withSession(body)
            }
        } catch {
            if [.notFound, .unsupported].contains(error.code) {
                _ = try await checkedSnapshot(of: blob.name, withHash: blob.publicKeyHash)
            }
            throw error
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

    /// Whether the token may show a key only after the login that a policy requires. PIV and OpenPGP
    /// cards show all public keys.
    func mayHideKeys(under policy: AccessPolicy) -> Bool {
        policy.requirement != .none && !profile.isPIV && !profile.isOpenPGP
    }

    /// Whether an occupied slot can be detected. YubiKeys report it from firmware 5.3 on, which
    /// ykcs11 writes as 5.30; before, a key without a certificate is invisible.
    var showsOccupiedSlots: Bool {
        module.family != .ykcs11 || information.firmwareVersion >= .init(major: 5, minor: 30)
    }
}

extension PKCS11Keystore {
    /// Reads the token's state and the public half of a key. Needs no login.
    ///
    /// - Parameters:
    ///   - label: The label of the key, if several keys have the ID.
    ///   - name: The expected token, if any. A different token is refused before it is used.
    ///   - publicKeyHash: The hash of the expected public half. The caller checks it.
    func takeSnapshot(
        for id: Data? = nil, label: String? = nil, on name: TokenName? = nil,
        withHash publicKeyHash: Data? = nil
    ) async throws(KeystoreError) -> TokenSnapshot {
        try await locator.withToken(named: name) { [options] (token) throws(CryptokiError) in
            let (information, publicKey) = try await token.withSession {
                (session) throws(CryptokiError) in
                let information = try session.tokenInformation()
                try information.checkWasRead(by: session.profile)
                let publicKey = try id.flatMap { (id) throws(CryptokiError) in
                    try session.publicKey(id: id, label: label, hash: publicKeyHash)
                }
                let hash = publicKey?.fingerprint
                // SoftHSM2 shows a token without its PIN while another process writes to it.
                let failsDuringWrites = session.profile.failsDuringWrites
                try session.confirm(
                    failsDuringWrites
                        ? information.flags.contains(.userPINInitialized)
                        : id == nil || hash != nil && hash == publicKeyHash ?? hash)
                return (information, publicKey)
            }
            return TokenSnapshot(
                token: token, information: information,
                profile: TokenProfile(
                    token.module.profile, information: information, options: options),
                publicKey: publicKey)
        }
    }

    /// Finds the token and the key of a stored record, and checks that both are the stored ones.
    ///
    /// - Parameter policy: The policy of the following use. A key that the token does not show may
    ///   be visible after the login of that use, which then looks for it.
    func checkedSnapshot(
        of name: TokenName, withHash publicKeyHash: Data, under policy: AccessPolicy = .none
    ) async throws(KeystoreError) -> TokenSnapshot {
        let snapshot = try await takeSnapshot(for: name.id, on: name, withHash: publicKeyHash)
        guard snapshot.publicKey != nil || !snapshot.mayHideKeys(under: policy) || !name.hasSerial
        else { return snapshot }
        try name.check(publicKeyHash, found: snapshot.publicKey?.fingerprint)
        return snapshot
    }
}

extension TokenInformation {
    /// Checks that ykcs11 could read the card. It reports firmware 0.0 or no serial number if the
    /// card was removed, or reset by another program, in the middle.
    ///
    /// - Parameter needsSerial: Whether the card is known to have a serial number.
    func checkWasRead(by profile: ModuleProfile, withSerial needsSerial: Bool = false)
        throws(CryptokiError)
    {
        let hasSerial = !needsSerial || serial.contains { $0 != "0" }
        guard profile.family != .ykcs11 || firmwareVersion.major > 0 && hasSerial else {
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

    /// Runs `body`, which uses the key, and reports its absence as ``check(_:found:)`` does.
    func explainingAbsence<R: Sendable>(
        _ body: () async throws(KeystoreError) -> R
    ) async throws(KeystoreError) -> R {
        do {
            return try await body()
        } catch {
            switch error.code {
            case .notFound where error.underlying != nil: throw .keyGone(self)
            case .invalidated where error.underlying != nil: throw .keyReplaced(self)
            default: throw error
            }
        }
    }
}

/// Finds the token of a URI when it is first used, and again after it was lost.
final class TokenLocator: Sendable {
    private let uri: TokenURI
    private let options: TokenOptions
    private let found = Mutex<Token?>(nil)
    /// Whether a stored name may have chosen the token among several that the URI matches.
    private let isChosen = Mutex(false)

    init(uri: TokenURI, options: TokenOptions) {
        self.uri = uri
        self.options = options
    }

    /// Runs `body` with the token. A token that was found before and is absent, or not the expected
    /// one, may have been replaced by another one that the URI matches: it is looked for once more.
    /// So is one without a serial number where the key's token has one: OpenSC shows such a token if
    /// the card was removed while it was read.
    ///
    /// - Parameter name: The expected token, if any. `body` does not get a different one.
    func withToken<R: Sendable>(
        named name: TokenName? = nil, _ body: (Token) async throws(CryptokiError) -> R
    ) async throws(KeystoreError) -> R {
        var mayLookAgain = true
        while true {
            let (token, wasKnown) = try await token(named: name)
            let failure: KeystoreError
            var mayBeUnread = false
            do throws(CryptokiError) {
                guard let name, !name.fits(token) else { return try await body(token) }
                try token.information.checkWasRead(
                    by: token.module.profile, withSerial: name.hasSerial)
                failure = .otherToken(
                    wanted: name, found: token.information, through: token.module)
                mayBeUnread = name.hasSerial && !token.information.texts.hasSerial
            } catch {
                failure = KeystoreError(error, profile: token.module.profile)
                // A token that could not be read is not kept either.
                if error.returnValue == .deviceError { found.withLock { $0 = nil } }
                guard error.kind == .tokenAbsent else { throw failure }
            }
            found.withLock { $0 = nil }
            guard wasKnown || mayBeUnread && mayLookAgain else { throw failure }
            mayLookAgain = wasKnown
        }
    }

    /// The token, and whether it was known before this call.
    private func token(
        named name: TokenName?
    ) async throws(KeystoreError) -> (token: Token, wasKnown: Bool) {
        if let token = known, name != nil || !isChosen.withLock({ $0 }) { return (token, true) }
        do {
            let token = try await Token.find(uri, options: options) { information in
                name?.isSameDevice(information) != false
            } choosing: { token in
                name?.fits(token) == true
            }
            found.withLock { $0 = token }
            isChosen.withLock { $0 = name != nil }
            return (token, false)
        } catch {
            throw KeystoreError(error)
        }
    }

    /// The token, if it was found already.
    var known: Token? { found.withLock { $0 } }
}
