public import Latchkey

extension PKCS11Keystore {
    public func sign(
        _ digest: MessageDigest, with key: HardwareKey, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> ECDSASignature {
        do throws(KeystoreError) {
            let blob = try TokenKeyBlob.of(key)
            var signature = try await signWithoutSnapshot(digest, key, blob, prompt, presence)
            if signature == nil {
                let snapshot = try await takeSnapshot(of: blob.name, withHash: blob.publicKeyHash)
                let hint = TouchHint(presence, for: prompt, on: snapshot.module.family)
                signature = try await use(snapshot, under: key.policy, for: prompt, presence) {
                    (session, proof) throws(CryptokiError) in
                    let found = try session.key(id: blob.name.id, publicKey: key.publicKey)
                    return try hint.during { () throws(CryptokiError) in
                        try session.sign(digest, with: found, proof: found.wantsProofAtUse ? proof : nil)
                    }
                }
            }
            guard let signature, key.publicKey.isValid(signature, for: digest) else { throw .wrongSignature }
            return signature
        } catch {
            throw error.during("sign")
        }
    }

    /// Signs with a key without a PIN. No prompt follows, so the signature itself shows whether token and key are the right
    /// ones.
    ///
    /// - Returns: nil for a key with a PIN, and if the token or the key changed; a snapshot then tells why.
    private func signWithoutSnapshot(
        _ digest: MessageDigest, _ key: HardwareKey, _ blob: TokenKeyBlob, _ prompt: PromptContext,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> ECDSASignature? {
        guard key.policy.requirement == .none else { return nil }
        let snapshot = try await cachedSnapshot(of: blob.name)
        let hint = TouchHint(presence, for: prompt, on: snapshot.module.family)
        do {
            return try await snapshot.token.withSession { (session) throws(CryptokiError) in
                let found = try session.key(id: blob.name.id, publicKey: key.publicKey)
                return try hint.during { () throws(CryptokiError) in try session.sign(digest, with: found) }
            }
        } catch {
            guard error.kind == .tokenAbsent || error.kind == .keyAbsent else {
                throw KeystoreError(error, profile: snapshot.module)
            }
            return nil
        }
    }
}

/// How an operation may use a private key.
private enum TokenAccess: Sendable {
    /// The key needs no login.
    case open
    /// Logs in with a new proof; the login may be reused for the window.
    case login(LoginProof, ReuseWindow)
    /// Reuses the login of a proof that was given less than this number of seconds ago.
    case kept(within: Int)
}

extension PKCS11Keystore {
    /// Uses a private key under a policy. Prompts first if the policy requires it and no earlier proof may be reused; holds
    /// the token only afterwards.
    ///
    /// - Parameters:
    ///   - isExclusive: Whether `body` may generate a key with an ID that another process may choose too.
    ///   - body: Runs on the token's thread, perhaps twice: one whole operation. Gets the proof for keys that require one
    ///     for each use.
    func use<R: Sendable>(
        _ snapshot: TokenSnapshot, under policy: AccessPolicy, for prompt: PromptContext, isExclusive: Bool = false,
        _ presence: any PresenceAuthority,
        _ body: @escaping @Sendable (Session, LoginProof?) throws(CryptokiError) -> R
    ) async throws(KeystoreError) -> R {
        var access = TokenAccess.open
        if policy.requirement != .none {
            let window = ReuseWindow(
                seconds: snapshot.keepsLogin ? policy.reuseSeconds : 0, endings: snapshot.login.endings)
            if presence.acceptsEarlierProof, snapshot.login.isFresh(within: window.seconds) {
                do {
                    return try await snapshot.run(.kept(within: window.seconds), isExclusive, presence, body)
                } catch  where error.kind != .loginNeeded {
                    throw await explained(error, snapshot, presence)
                } catch {}
            }
            access = .login(try await userProof(snapshot, for: prompt, presence), window)
        }
        do {
            return try await snapshot.run(access, isExclusive, presence, body)
        } catch {
            throw await explained(error, snapshot, presence)
        }
    }

    /// Generates a key as the security officer. No other process of this user does so at the same time, and the session
    /// shows the current objects of the token.
    func asSecurityOfficer<R: Sendable>(
        _ proof: LoginProof, _ snapshot: TokenSnapshot,
        _ body: @escaping @Sendable (Session) throws(CryptokiError) -> R
    ) async throws(KeystoreError) -> R {
        do {
            return try await snapshot.token.withLogin(.securityOfficer, proof, isExclusive: true, body)
        } catch {
            throw .unusableManagementKey(error, snapshot) ?? KeystoreError(error, profile: snapshot.module)
        }
    }

    /// The error for a failed use of a private key. Reads the token's flags where the answer alone does not say enough, and
    /// reports a rejected PIN to `presence`.
    func explained(
        _ error: CryptokiError, _ snapshot: TokenSnapshot, _ presence: any PresenceAuthority
    ) async -> KeystoreError {
        switch error.returnValue {
        case .functionCanceled?, .functionRejected?: return .cancelled("it was declined at the reader")
        case .pinLocked?, .pinIncorrect?, .pinInvalid?, .pinLenRange?: presence.rejected()
        default: return KeystoreError(error, profile: snapshot.module)
        }
        guard error.returnValue != .pinLocked else { return .pinLocked(snapshot.module, underlying: error) }
        guard let information = try? await takeSnapshot().information else {
            return KeystoreError(error, profile: snapshot.module)
        }
        let status = PINStatus(information)
        guard !status.isLockedOut else { return .pinLocked(snapshot.module, underlying: error) }
        return KeystoreError(
            code: .wrongProof,
            reason: snapshot.profile.verifiesUserItself
                ? "the token did not accept the PIN or fingerprint" : "the PIN is wrong",
            recovery: status.attemptsLeft == 1
                ? "One attempt is left before the token locks: check the PIN, then try again."
                : "Try again.",
            attemptsLeft: status.attemptsLeft, underlying: UnderlyingError(error))
    }
}

extension PKCS11Keystore {
    /// The user's proof: the PIN, or the token's own prompt. Does not prompt if the PIN is locked.
    func userProof(
        _ snapshot: TokenSnapshot, for prompt: PromptContext, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> LoginProof {
        var status = PINStatus(snapshot.information)
        if status.isLockedOut, snapshot.module.cachesStaleState {
            status = PINStatus(try await informationAfterRestart(snapshot))
        }
        guard !status.isLockedOut else { throw .pinLocked(snapshot.module) }
        guard snapshot.information.flags.contains(.userPINInitialized) || snapshot.profile.verifiesUserItself else {
            throw KeystoreError(
                code: .passcodeNotSet, reason: "the token has no user PIN yet",
                recovery: "Set one with `latchkey token pin`.")
        }
        if snapshot.profile.verifiesUserItself {
            await presence.notice(.useReader(prompt))
            guard let text = snapshot.module.fingerprintPIN else { return .protectedPath }
            return .pin(try PIN(text))
        }
        let pin = try await presence.givenPIN(
            PINRequest(purpose: .current, context: prompt, attemptsLeft: status.attemptsLeft))
        try snapshot.profile.check(pin, attemptsLeft: status.attemptsLeft)
        return .pin(pin)
    }

    /// The token's flags after its module was restarted: another program may have unblocked the PIN since.
    private func informationAfterRestart(_ snapshot: TokenSnapshot) async throws(KeystoreError) -> TokenInformation {
        do {
            try await snapshot.token.restartModule()
        } catch {
            throw KeystoreError(error, profile: snapshot.module)
        }
        return try await snapshot.token.inspect { (session) throws(CryptokiError) in try session.tokenInformation() }
    }

    /// The security officer's PIN, which some tokens require for creating keys.
    func officerProof(
        _ snapshot: TokenSnapshot, for prompt: PromptContext, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> LoginProof {
        guard !snapshot.information.flags.contains(.securityOfficerPINLocked) else {
            throw KeystoreError(
                code: .lockedOut, reason: "the token's security officer PIN is locked",
                recovery: "Adopt a key that is on the token already, or erase the token.")
        }
        let left = snapshot.information.flags.contains(.securityOfficerPINFinalTry) ? 1 : nil
        return .pin(
            try await presence.givenPIN(
                PINRequest(purpose: .securityOfficer, context: prompt, attemptsLeft: left)))
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

extension TokenSnapshot {
    /// Runs `body` on the token's thread with access to private keys.
    ///
    /// Logs out before it shows a proof: a token that considers the user logged in does not check the PIN. It is also safe
    /// if the logout afterwards fails: no operation reuses a login that ``LoginReuse`` does not confirm.
    ///
    /// - Parameter body: Gets the proof for keys that require one for each use.
    fileprivate func run<R: Sendable>(
        _ access: TokenAccess, _ isExclusive: Bool, _ presence: any PresenceAuthority,
        _ body: @escaping @Sendable (Session, LoginProof?) throws(CryptokiError) -> R
    ) async throws(CryptokiError) -> R {
        try await token.withSession(isExclusive: isExclusive) { [token, login] (session) throws(CryptokiError) in
            switch access {
            case .open: return try body(session, nil)
            case .kept(let seconds):
                guard login.isFresh(within: seconds), try session.loginState() == .user else {
                    throw CryptokiError(.loginNeeded, reason: "the login has ended")
                }
                return try body(session, nil)
            case .login(let proof, let window):
                login.forget()
                try session.logout()
                try session.login(.user, with: proof)
                presence.accepted()
                let result = Result { () throws(CryptokiError) in try body(session, proof) }
                guard case .success = result, login.keep(for: window, on: token) else {
                    try? session.logout()
                    return try result.get()
                }
                return try result.get()
            }
        }
    }
}

/// Tells the user to touch the token if an operation takes longer than one without a touch. The token does not report that
/// it waits.
struct TouchHint: Sendable {
    /// The delay before the notice, the same as in Yubico's programs.
    static let delay = Duration.milliseconds(500)

    private let presence: any PresenceAuthority
    private let notice: PresenceNotice
    let mayWaitForTouch: Bool

    init(_ presence: any PresenceAuthority, for prompt: PromptContext, on family: ModuleProfile.Family) {
        self.presence = presence
        notice = .touch(prompt)
        mayWaitForTouch = family != .softhsm && family != .tpm2
    }

    /// Runs `body` on the token's thread, and sends the notice if it has not returned after ``delay``.
    func during<R>(_ body: () throws(CryptokiError) -> R) throws(CryptokiError) -> R {
        guard mayWaitForTouch else { return try body() }
        // Unstructured on purpose: the token's thread blocks and can't wait for a child task.
        let task = Task { [presence, notice] in
            guard (try? await Task.sleep(for: Self.delay)) != nil else { return }
            await presence.notice(notice)
        }
        defer { task.cancel() }
        return try body()
    }
}
