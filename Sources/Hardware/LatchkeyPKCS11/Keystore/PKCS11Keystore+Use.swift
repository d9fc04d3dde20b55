internal import Latchkey

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
