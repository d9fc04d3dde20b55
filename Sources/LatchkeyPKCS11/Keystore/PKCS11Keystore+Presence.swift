internal import Latchkey

extension PKCS11Keystore {
    /// Uses a private key under a policy: asks the person first, where the policy has one and no proof is fresh, and
    /// holds the token only afterwards.
    ///
    /// - Parameters:
    ///   - isExclusive: Whether `body` may generate a key at an id that another process may choose too.
    ///   - body: Runs on the token's thread, perhaps twice: one whole operation. Gets the proof for keys that want one at
    ///     each use.
    func use<R: Sendable>(
        _ sight: TokenSight, under policy: AccessPolicy, for prompt: PromptContext, isExclusive: Bool = false,
        _ operation: String, _ presence: any PresenceAuthority,
        _ body: @escaping @Sendable (Session, LoginProof?) throws(CryptokiError) -> R
    ) async throws(KeystoreError) -> R {
        guard policy.requirement != .none else {
            return try await attempt(.open, sight, isExclusive: isExclusive, operation, body)
        }
        let term = LoginTerm(
            seconds: sight.keepsLogin ? policy.reuseSeconds : 0, endings: sight.login.endings)
        if presence.acceptsEarlierProof, sight.login.isFresh(within: term.seconds) {
            do {
                return try await perform(.kept(within: term.seconds), sight, isExclusive: isExclusive, body)
            } catch  where error.kind != .loginNeeded {
                throw await explained(error, operation, sight)
            } catch {}
        }
        let proof = try await userProof(sight, for: prompt, operation, presence)
        return try await attempt(.login(proof, term), sight, isExclusive: isExclusive, operation, body)
    }

    /// Uses a private key with an access that was obtained already.
    func attempt<R: Sendable>(
        _ access: TokenAccess, _ sight: TokenSight, isExclusive: Bool = false, _ operation: String,
        _ body: @escaping @Sendable (Session, LoginProof?) throws(CryptokiError) -> R
    ) async throws(KeystoreError) -> R {
        do {
            return try await perform(access, sight, isExclusive: isExclusive, body)
        } catch {
            throw await explained(error, operation, sight)
        }
    }

    private func perform<R: Sendable>(
        _ access: TokenAccess, _ sight: TokenSight, isExclusive: Bool,
        _ body: @escaping @Sendable (Session, LoginProof?) throws(CryptokiError) -> R
    ) async throws(CryptokiError) -> R {
        let (token, login) = (sight.token, sight.login)
        let work: @Sendable (Session) throws(CryptokiError) -> R = { (session) throws(CryptokiError) in
            try session.with(access, on: token, login) { (proof) throws(CryptokiError) in try body(session, proof) }
        }
        return try await isExclusive ? token.performExclusively(work) : token.perform(work)
    }

    /// The user's proof: the PIN, or what the token asks for by itself. Nobody types into a locked door.
    func userProof(
        _ sight: TokenSight, for prompt: PromptContext, _ operation: String, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> LoginProof {
        var status = PINStatus(sight.information)
        if status.isLockedOut, sight.token.profile.clingsToThePast {
            status = PINStatus(try await freshInformation(sight, operation))
        }
        guard !status.isLockedOut else { throw .pinLocked(operation, sight.token.profile) }
        guard sight.information.flags.contains(.userPINInitialized) || sight.nature.asksItself else {
            throw KeystoreError(
                operation: operation, code: .passcodeNotSet, reason: "the token has no user PIN yet",
                recovery: "Set one with `latchkey token pin`.")
        }
        if sight.nature.asksItself {
            await presence.notice(PresenceNotice(.useReader, context: prompt))
            guard let text = sight.token.profile.fingerprintPIN else { return .protectedPath }
            return .pin(try PIN(text))
        }
        let request = PINRequest(purpose: .current, context: prompt, attemptsLeft: status.attemptsLeft)
        let pin = try await presence.givenPIN(request, to: operation)
        try sight.nature.check(pin, attemptsLeft: status.attemptsLeft, operation)
        return .pin(pin)
    }

    /// What the token says when its module knows nothing of earlier: another program may have unblocked the PIN since.
    private func freshInformation(_ sight: TokenSight, _ operation: String) async throws(KeystoreError)
        -> TokenInformation
    {
        do {
            try await sight.token.restartModule()
            return try await sight.token.perform { (session) throws(CryptokiError) in try session.tokenInformation() }
        } catch {
            throw failure(error, operation, sight.token)
        }
    }

    /// The security officer's PIN, which some tokens want for making keys.
    func officerProof(
        _ sight: TokenSight, for prompt: PromptContext, _ operation: String, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> LoginProof {
        guard !sight.information.flags.contains(.securityOfficerPINLocked) else {
            throw KeystoreError(
                operation: operation, code: .lockedOut, reason: "the token's security officer PIN is locked",
                recovery: "Adopt a key that is on the token already, or erase the token.")
        }
        let left = sight.information.flags.contains(.securityOfficerPINFinalTry) ? 1 : nil
        return .pin(
            try await presence.givenPIN(
                PINRequest(purpose: .securityOfficer, context: prompt, attemptsLeft: left), to: operation))
    }

    /// What a failed use means. Reads the token's flags where its answer alone does not say enough.
    func explained(_ error: CryptokiError, _ operation: String, _ sight: TokenSight) async -> KeystoreError {
        switch error.returnValue {
        case .functionCanceled?, .functionRejected?:
            return .cancelled(operation, "it was declined at the reader")
        case .pinLocked?: return .pinLocked(operation, sight.token.profile, underlying: error)
        case .pinIncorrect?, .pinInvalid?, .pinLenRange?:
            guard let information = try? await look(operation).information else { break }
            let status = PINStatus(information)
            guard !status.isLockedOut else {
                return .pinLocked(operation, sight.token.profile, underlying: error)
            }
            return KeystoreError(
                operation: operation, code: .wrongProof,
                reason: sight.nature.asksItself
                    ? "the token did not accept the PIN or finger" : "the PIN is wrong",
                recovery: status.attemptsLeft == 1
                    ? "One attempt is left before the token locks: be sure of the PIN, then try again."
                    : "Try again.",
                attemptsLeft: status.attemptsLeft, underlying: KeystoreError.Underlying(error))
        default: break
        }
        return failure(error, operation, sight.token)
    }
}

extension KeystoreError {
    static func pinLocked(
        _ operation: String, _ profile: ModuleProfile, underlying: CryptokiError? = nil
    ) -> KeystoreError {
        let recovery =
            switch profile.unblocking {
            case .securityOfficer: "Set a new PIN with the security officer's: `latchkey token pin --unblock`."
            case .prefixedSetPIN: "Set a new PIN with the PUK: `latchkey token pin --unblock`, or `ykman piv access`."
            case .program(let program): "Unblock it with `\(program)`."
            }
        return KeystoreError(
            operation: operation, code: .lockedOut, reason: "the token's PIN is locked after too many wrong ones",
            recovery: recovery, attemptsLeft: nil, underlying: underlying.map { Underlying($0) })
    }
}
