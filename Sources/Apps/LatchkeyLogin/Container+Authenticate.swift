internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyOAuth

extension Container {
    /// Logs in with the container's key. No session is necessary; the new session replaces the old
    /// one.
    ///
    /// Servers return one error, `InvalidCredentials`, for a removed key, a wrong clock and a used
    /// challenge. To tell them apart, the clock is compared with the server's before the prompt,
    /// and a challenge that expired during the prompt is not used. A server that lost the challenge
    /// accepts a second attempt with a new one. The accepted PIN is used for it again; a finger is
    /// read again. If that fails too, and the clocks agree, the server does not know the key. The
    /// key is then removed. If the server has also ended the session, as for a lost device, the
    /// session on this device ends.
    ///
    /// - Parameter reason: The reason in the prompt, as the end of "APPLICATION asks for your PIN
    ///   to …". If nil, it names the server.
    /// - Throws: ``LoginError``: `notEnabled` before any prompt, `identityNotFound` after the key
    ///   was removed, or `clockSkew`. `KeystoreError` of the hardware; the key is then kept. It can
    ///   never sign again after `invalidated`: let the user log in another way, and call
    ///   ``enableBiometric(policy:replacing:reason:)-(AccessPolicy?,_,_)`` with `replacing`.
    @discardableResult
    public func authenticateBiometric(reason: String? = nil) async throws -> AuthorizeResult {
        do {
            return try await logInWithKey(reason: reason)
        } catch {
            await forgetKey(after: error)
            throw error.during("authenticate")
        }
    }

    /// - Parameter stepUp: What the login must prove about the session's user.
    func logInWithKey(reason: String?, for stepUp: StepUp? = nil) async throws -> AuthorizeResult {
        try await checkServer()
        let prompt = prompt("log in to", reason: reason)
        // A step-up needs a new proof. Another keystore of this process may have got an earlier
        // one.
        let presence = PresenceSession(presence, acceptsEarlierProof: stepUp == nil)
        guard let stored = try await rows.key(for: prompt, authorizedBy: presence) else {
            throw LoginError.notEnabled
        }
        try stepUp?.check(stored.userID)
        try records.store.checkWritable()
        let unproven = try await server()
        try await removeEarlierSession()
        if configuration.tokenStorage == .persistent {
            try await records.open(.device, for: prompt, authorizedBy: presence)
        }
        let server = try await proving(unproven, for: prompt)
        var lastRefusal: (error: LoginError, clock: ClockCheck?)?
        for _ in 1...2 {
            let (challenge, date) = try await server.challenge()
            let clock = ClockCheck(server: date, device: now)
            if let clock, clock.isHopeless { throw LoginError.clockSkew(seconds: clock.ahead) }
            let jwt: String
            do {
                jwt = try await signedRequest(
                    .authenticate, challenge, with: stored.key,
                    audience: server.audience(for: stored), for: prompt, authorizedBy: presence)
            } catch let error as KeystoreError where error.code == .invalidated {
                throw error.with(recovery: error.recoveryAction.offering(.replaceLoginKey))
            }
            guard !challenge.isExpired else { continue }
            let (response, result) = try await redeem(jwt, of: stored, at: server, for: stepUp)
            if let result { return result }
            let failure = LoginError(.refused(response.refusal))
            guard failure.isInvalidCredentials else { throw failure }
            let checked = ClockCheck(server: response.date, device: now) ?? clock
            if let checked, checked.isSuspicious {
                throw LoginError.clockSkew(seconds: checked.ahead)
            }
            lastRefusal = (failure, checked)
        }
        guard let (error, clock) = lastRefusal else {
            throw LoginError(
                code: .timedOut, reason: "the challenge expired before the prompt was answered",
                recovery: "Start again when you are ready.")
        }
        // Without the server's time, a wrong clock may be the cause.
        guard clock != nil else { throw error }
        try await forget(stored)
        await askForSession()
        throw LoginError.identityNotFound(
            "Log in another way, then enable biometric login again.", error.details)
    }

    /// Exchanges the signature for a session, and makes it the current one.
    ///
    /// Only one process at a time does this: a server ends a device's session when the device logs
    /// in again, so two concurrent logins would end each other's session before either is stored.
    private func redeem(
        _ jwt: String, of stored: BiometricKey, at server: LoginEndpoints, for stepUp: StepUp?
    ) async throws -> (ServerResponse<LoginErrorCode>, AuthorizeResult?) {
        try await records.exclusively {
            let response = try await server.authenticate(jwt: jwt)
            return (
                response,
                response.isSuccess
                    ? try await adopt(response, of: stored, at: server, for: stepUp) : nil
            )
        }
    }

    private func adopt(
        _ response: ServerResponse<LoginErrorCode>, of stored: BiometricKey,
        at server: LoginEndpoints, for stepUp: StepUp?
    ) async throws -> AuthorizeResult {
        let tokens = response.tokens()
        let result = try await adopt(tokens, keyID: stored.id, server) { [configuration] in
            if stepUp != nil { _ = try tokens.required(.idToken, for: LoginErrorCode.self) }
            guard let compact = tokens.idToken else { return stored.userID }
            let token = try server.client.claims(
                of: compact, now: configuration.now(), serverDate: response.date)
            guard token.sub == stored.userID else { throw LoginError.userMismatch }
            try stepUp?.check(
                token, with: server.client.idTokens, now: configuration.now(),
                serverDate: response.date)
            return token.sub
        }
        // Records that the server requires an audience, so that later metadata cannot withdraw
        // that. If this fails or another process has changed the key's row, the next login records
        // it.
        if server.metadata.requiresAudience, !stored.requiresAudience {
            let change = rows.put(
                stored.key, owner: stored.userID, requiresAudience: true,
                ifGeneration: stored.generation)
            _ = try? await rows.applyUnlessChanged([change], for: prompt("log in to"))
        }
        return result
    }

    /// Ends the session on this device if the server has ended it: who removed the key may have
    /// revoked the device. The next operation repeats a request that fails.
    private func askForSession() async {
        guard (try? await currentSession()) != nil else { return }
        session?.access = nil
        _ = try? await refreshedSession()
    }

    /// Removes a key that the server does not know. The verified row of the key names this server.
    /// If another process has changed the row, it belongs to another key and is kept.
    private func forget(_ stored: BiometricKey) async throws {
        let changes =
            LoginRows.deleteKey(ifGeneration: stored.generation) + [
                LoginRows.delete(identity: stored.id)
            ]
        guard try await rows.applyUnlessChanged(changes, for: prompt("log in to")) != nil else {
            return
        }
        try await records.discard(stored.key)
    }
}

/// The difference between this machine's clock and the server's.
struct ClockCheck: Sendable {
    /// The maximum difference that servers accept, in seconds.
    static let limit: Double = 300
    /// The difference from which the clock may be the cause of a refusal. Network and rounding need
    /// the rest.
    static let suspicion: Double = 240

    /// Seconds that this machine is ahead.
    let ahead: Double

    /// - Returns: nil if the server's time is not known.
    init?(server: Date?, device: Date) {
        guard let server else { return nil }
        ahead = device.timeIntervalSince(server)
    }

    var isHopeless: Bool { abs(ahead) > Self.limit }
    var isSuspicious: Bool { abs(ahead) > Self.suspicion }
}
