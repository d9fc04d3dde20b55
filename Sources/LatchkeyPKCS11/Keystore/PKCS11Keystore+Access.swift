internal import Latchkey

/// How an operation may use a private key.
enum TokenAccess: Sendable {
    /// The key needs no login.
    case open
    /// Logs in with a new proof; the login may be reused for the window.
    case login(LoginProof, ReuseWindow)
    /// Reuses the login of a proof that was given less than this number of seconds ago.
    case kept(within: Int)
}

/// The time for which a login may be reused after the operation that logged in.
struct ReuseWindow: Hashable, Sendable {
    /// 0 ends the login with the operation.
    let seconds: Int
    /// ``LoginReuse/endings`` when the operation began. An operation that began before an end leaves no login.
    let endings: Int
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
        _ operation: String, _ presence: any PresenceAuthority,
        _ body: @escaping @Sendable (Session, LoginProof?) throws(CryptokiError) -> R
    ) async throws(KeystoreError) -> R {
        guard policy.requirement != .none else {
            return try await attempt(.open, snapshot, isExclusive: isExclusive, operation, body)
        }
        let window = ReuseWindow(
            seconds: snapshot.keepsLogin ? policy.reuseSeconds : 0, endings: snapshot.login.endings)
        if presence.acceptsEarlierProof, snapshot.login.isFresh(within: window.seconds) {
            do {
                return try await snapshot.run(.kept(within: window.seconds), isExclusive: isExclusive, body)
            } catch  where error.kind != .loginNeeded {
                throw await explained(error, operation, snapshot)
            } catch {}
        }
        let proof = try await userProof(snapshot, for: prompt, operation, presence)
        return try await attempt(.login(proof, window), snapshot, isExclusive: isExclusive, operation, body)
    }

    /// Uses a private key with an access that was obtained already.
    func attempt<R: Sendable>(
        _ access: TokenAccess, _ snapshot: TokenSnapshot, isExclusive: Bool = false, _ operation: String,
        _ body: @escaping @Sendable (Session, LoginProof?) throws(CryptokiError) -> R
    ) async throws(KeystoreError) -> R {
        do {
            return try await snapshot.run(access, isExclusive: isExclusive, body)
        } catch {
            throw await explained(error, operation, snapshot)
        }
    }

    /// Uses the token without a private key.
    func inspect<R: Sendable>(
        _ token: Token, _ operation: String, _ body: @escaping @Sendable (Session) throws(CryptokiError) -> R
    ) async throws(KeystoreError) -> R {
        do {
            return try await token.perform(body)
        } catch {
            throw KeystoreError(error, during: operation, profile: token.module.profile)
        }
    }

    /// Generates a key as the security officer. No other process of this user does so at the same time, and the session
    /// shows the current objects of the token.
    func asSecurityOfficer<R: Sendable>(
        _ proof: LoginProof, _ snapshot: TokenSnapshot, _ operation: String,
        _ body: @escaping @Sendable (Session) throws(CryptokiError) -> R
    ) async throws(KeystoreError) -> R {
        let login = snapshot.login
        do {
            return try await snapshot.token.performExclusively { (session) throws(CryptokiError) in
                login.forget()
                try session.logout()
                try session.login(.securityOfficer, with: proof)
                defer { try? session.logout() }
                return try body(session)
            }
        } catch {
            throw KeystoreError.unusableManagementKey(error, operation, snapshot)
                ?? KeystoreError(error, during: operation, profile: snapshot.token.module.profile)
        }
    }

    /// The error for a failed use of a private key. Reads the token's flags where the answer alone does not say enough.
    func explained(_ error: CryptokiError, _ operation: String, _ snapshot: TokenSnapshot) async -> KeystoreError {
        let profile = snapshot.token.module.profile
        switch error.returnValue {
        case .functionCanceled?, .functionRejected?:
            return .cancelled(operation, "it was declined at the reader")
        case .pinLocked?: return .pinLocked(operation, profile, underlying: error)
        case .pinIncorrect?, .pinInvalid?, .pinLenRange?:
            guard let information = try? await takeSnapshot(operation).information else { break }
            let status = PINStatus(information)
            guard !status.isLockedOut else { return .pinLocked(operation, profile, underlying: error) }
            return KeystoreError(
                operation: operation, code: .wrongProof,
                reason: snapshot.profile.verifiesUserItself
                    ? "the token did not accept the PIN or fingerprint" : "the PIN is wrong",
                recovery: status.attemptsLeft == 1
                    ? "One attempt is left before the token locks: be sure of the PIN, then try again."
                    : "Try again.",
                attemptsLeft: status.attemptsLeft, underlying: KeystoreError.Underlying(error))
        default: break
        }
        return KeystoreError(error, during: operation, profile: profile)
    }
}

extension PKCS11Keystore {
    /// The user's proof: the PIN, or the token's own prompt. Does not prompt if the PIN is locked.
    func userProof(
        _ snapshot: TokenSnapshot, for prompt: PromptContext, _ operation: String, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> LoginProof {
        let module = snapshot.token.module.profile
        var status = PINStatus(snapshot.information)
        if status.isLockedOut, module.cachesStaleState {
            status = PINStatus(try await informationAfterRestart(snapshot, operation))
        }
        guard !status.isLockedOut else { throw .pinLocked(operation, module) }
        guard snapshot.information.flags.contains(.userPINInitialized) || snapshot.profile.verifiesUserItself else {
            throw KeystoreError(
                operation: operation, code: .passcodeNotSet, reason: "the token has no user PIN yet",
                recovery: "Set one with `latchkey token pin`.")
        }
        if snapshot.profile.verifiesUserItself {
            await presence.notice(PresenceNotice(.useReader, context: prompt))
            guard let text = module.fingerprintPIN else { return .protectedPath }
            return .pin(try PIN(text))
        }
        let request = PINRequest(purpose: .current, context: prompt, attemptsLeft: status.attemptsLeft)
        let pin = try await presence.givenPIN(request, to: operation)
        try snapshot.profile.check(pin, attemptsLeft: status.attemptsLeft, operation)
        return .pin(pin)
    }

    /// The token's flags after its module was restarted: another program may have unblocked the PIN since.
    private func informationAfterRestart(
        _ snapshot: TokenSnapshot, _ operation: String
    ) async throws(KeystoreError) -> TokenInformation {
        do {
            try await snapshot.token.restartModule()
        } catch {
            throw KeystoreError(error, during: operation, profile: snapshot.token.module.profile)
        }
        return try await inspect(snapshot.token, operation) { (session) throws(CryptokiError) in
            try session.tokenInformation()
        }
    }

    /// The security officer's PIN, which some tokens require for creating keys.
    func officerProof(
        _ snapshot: TokenSnapshot, for prompt: PromptContext, _ operation: String, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> LoginProof {
        guard !snapshot.information.flags.contains(.securityOfficerPINLocked) else {
            throw KeystoreError(
                operation: operation, code: .lockedOut, reason: "the token's security officer PIN is locked",
                recovery: "Adopt a key that is on the token already, or erase the token.")
        }
        let left = snapshot.information.flags.contains(.securityOfficerPINFinalTry) ? 1 : nil
        return .pin(
            try await presence.givenPIN(
                PINRequest(purpose: .securityOfficer, context: prompt, attemptsLeft: left), to: operation))
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
        _ access: TokenAccess, isExclusive: Bool,
        _ body: @escaping @Sendable (Session, LoginProof?) throws(CryptokiError) -> R
    ) async throws(CryptokiError) -> R {
        let (token, login) = (token, login)
        let work: @Sendable (Session) throws(CryptokiError) -> R = { (session) throws(CryptokiError) in
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
                let result: R
                do throws(CryptokiError) {
                    result = try body(session, proof)
                } catch {
                    try? session.logout()
                    throw error
                }
                if !login.keep(for: window, on: token) { try? session.logout() }
                return result
            }
        }
        return try await isExclusive ? token.performExclusively(work) : token.perform(work)
    }
}

/// Tells the user to touch the token if an operation takes longer than one without a touch. The token does not report that
/// it waits.
final class TouchHint: Sendable {
    /// The delay before the notice, the same as in Yubico's programs.
    static let delay = Duration.milliseconds(500)

    private let presence: any PresenceAuthority
    private let notice: PresenceNotice

    /// - Returns: nil for a family of tokens that never wait for a touch.
    init?(_ presence: any PresenceAuthority, for prompt: PromptContext, on family: ModuleProfile.Family) {
        switch family {
        case .softhsm, .tpm2: return nil
        case .ykcs11, .opensc, .generic:
            self.presence = presence
            notice = PresenceNotice(.touch, context: prompt)
        }
    }

    /// Runs `body` on the token's thread, and sends the notice if it has not returned after ``delay``.
    func during<R>(_ body: () throws(CryptokiError) -> R) throws(CryptokiError) -> R {
        // Unstructured on purpose: the token's thread blocks and can't wait for a child task.
        let task = Task { [presence, notice] in
            guard (try? await Task.sleep(for: Self.delay)) != nil else { return }
            await presence.notice(notice)
        }
        defer { task.cancel() }
        return try body()
    }
}

extension TouchHint? {
    /// Runs `body`, with a notice where the token may wait for a touch.
    func during<R>(_ body: () throws(CryptokiError) -> R) throws(CryptokiError) -> R {
        guard let self else { return try body() }
        return try self.during(body)
    }
}
