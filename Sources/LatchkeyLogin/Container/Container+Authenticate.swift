internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyOAuth

extension Container {
    /// Logs the owner of the container's key in with it. No session is needed; a new one replaces the old.
    ///
    /// Servers give one answer, `InvalidCredentials`, to a removed key, a wrong clock and a spent challenge. So the
    /// clock is compared with the server's before anybody is asked, and a challenge that grew old while the person was
    /// asked is not used. What is left is a server that lost the challenge, and that shows in a second try with a
    /// fresh one; the PIN that has just worked serves for it, a finger is asked for again. Only when that fails too,
    /// with the clocks known to agree, is the key the reason: then it is removed from the list of keys.
    ///
    /// - Throws: ``LoginError``; `notEnabled` before anybody is asked, `identityNotFound` after the key was removed,
    ///   `clockSkew`; `KeystoreError` of the hardware, with the key kept.
    @discardableResult
    public func authenticateBiometric() async throws -> AuthorizeResult {
        let operation = "authenticate"
        try await checkServer(operation)
        let prompt = prompt("log in to")
        let consent = SingleConsent(presence)
        guard let stored = try await rows.key(for: prompt, authorizedBy: consent) else {
            throw LoginError.notEnabled(operation)
        }
        consent.confirm()
        let server = try await server(for: operation)
        if configuration.tokenStorage == .persistent {
            try await rows.open(for: prompt, authorizedBy: consent)
            consent.confirm()
        }
        var lastRefusal: (error: LoginError, clock: ClockCheck?)?
        for _ in 1...2 {
            let (challenge, date) = try await server.challenge()
            let clock = ClockCheck(server: date, device: now)
            if let clock, clock.isHopeless { throw LoginError.clockSkew(operation, seconds: clock.ahead) }
            let jwt = try await signedRequest(
                .authenticate, challenge, stored.key, for: server.audience(for: stored), prompt, consent)
            guard !challenge.isExpired else { continue }
            let (response, result) = try await redeem(jwt, stored, server)
            if let result { return result }
            let failure = response.failure(operation)
            guard failure.isInvalidCredentials else { throw failure }
            let checked = ClockCheck(server: response.date, device: now) ?? clock
            if let checked, checked.isSuspicious { throw LoginError.clockSkew(operation, seconds: checked.ahead) }
            lastRefusal = (failure, checked)
        }
        guard let (error, clock) = lastRefusal else {
            throw LoginError(
                operation: operation, code: .timedOut, reason: "the person took longer than the server waits",
                recovery: "Start again when you are ready.")
        }
        // Without the server's time the clock can't be ruled out.
        guard clock != nil else { throw error }
        try await forget(stored)
        throw LoginError.identityNotFound(
            operation, "Log in another way, then enable biometric login again.", oauthError: error.oauthError,
            httpStatus: error.httpStatus)
    }

    /// Exchanges the signature for a session, and makes it the current one.
    ///
    /// One process at a time: a server ends a device's session when the device logs in again, so two that log in at
    /// once would end each other's before either is stored.
    private func redeem(
        _ jwt: String, _ stored: BiometricKey, _ server: IdentityServer
    ) async throws -> (ServerResponse, AuthorizeResult?) {
        try await records.exclusively(for: server.operation) {
            let response = try await server.authenticate(jwt: jwt)
            return (response, response.isSuccess ? try await adopt(response, stored, server) : nil)
        }
    }

    private func adopt(
        _ response: ServerResponse, _ stored: BiometricKey, _ server: IdentityServer
    ) async throws -> AuthorizeResult {
        let tokens = try response.json(TokenResponse.self, server.operation)
        let result = try await adopt(tokens, keyID: stored.id, server) { [configuration] in
            guard let compact = tokens.idToken else { return stored.userID }
            let token = try server.claims(of: compact, now: configuration.now(), serverDate: response.date)
            guard token.sub == stored.userID else { throw LoginError.userMismatch(server.operation) }
            return token.sub
        }
        // The session is stored: if this fails, the next login notes it.
        if server.document.requiresAudience, !stored.requiresAudience { try? await rememberAudience(stored) }
        return result
    }

    /// Notes that the server requires an audience, so that it can't be told later that it does not. Another process that
    /// has changed the key's row meanwhile leaves this to the next login.
    private func rememberAudience(_ stored: BiometricKey) async throws {
        _ = try await rows.applyUnlessChanged(
            [
                rows.put(
                    stored.key, owner: stored.userID, requiresAudience: true, ifGeneration: stored.generation)
            ], for: prompt("log in to"))
    }

    /// Removes a key that the server does not know. It is the server that enrolled the key: the key's row, verified, names
    /// it. If another process has changed the row meanwhile, it is another
    /// key's row, and stays.
    private func forget(_ stored: BiometricKey) async throws {
        let changes = LoginRows.deleteKey(ifGeneration: stored.generation) + [LoginRows.delete(identity: stored.id)]
        guard try await rows.applyUnlessChanged(changes, for: prompt("log in to")) != nil else { return }
        try await records.discard(stored.key)
    }
}
