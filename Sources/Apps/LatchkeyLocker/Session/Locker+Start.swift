internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyOAuth
internal import Synchronization

/// Starting an active session.
extension Locker {
    /// Lets the user log in at the server. If this device is enrolled, only its user is accepted.
    func authenticateStrongly(_ context: FlowContext, _ draft: inout SessionDraft) async throws {
        let enrolment = state.withLock { $0.enrolment }
        let server = try await serverForTokens(context)
        try server.client.checkIDTokenAlgorithms()
        if enrolment == nil { try await checkEnrolmentIsPossible(server, context.presence) }
        let request = StrongAuthenticationRequest(
            authorizationEndpoint: try server.client.endpoint(.authorization).text,
            clientID: configuration.clientID,
            scope: configuration.scopes.joined(separator: " "), nonce: RandomText.make(),
            redirectURI: configuration.redirectURI, issuer: server.discovery.issuer,
            requiresIssuer: server.discovery.sendsIssuer,
            keyThumbprint: server.client.connection.prover?.key.thumbprint)
        let begun = now
        let code = try await prompting {
            if let authorize = context.options.authorize { return try await authorize(request) }
            return try await configuration.channel.authorize(request)
        }
        try Task.checkCancellation()
        let answer = try await server.client.redeem(
            code.code.text, verifier: code.codeVerifier.text, redirectURI: redirectURI(of: code))
        let tokens = try answer.checkedTokens()
        let idToken = try tokens.required(.idToken, for: ErsteGroupAuthErrorCode.self)
        let validator = server.client.idTokens
        let claims = try await validator.validate(
            idToken, keys: server.client.keys(),
            .init(nonce: request.nonce, accessToken: tokens.accessToken), now: now,
            serverDate: answer.date)
        let loggedInAt = try validator.checkLogin(claims, since: begun, now: now)
        guard enrolment == nil || enrolment?.userID == claims.sub else {
            throw ErsteGroupAuthError(
                code: .userMismatch,
                reason: "a different user logged in; this device is enrolled for another account",
                recovery: "Log in to that account, or destroy the enrolment first.")
        }
        draft.userID = claims.sub
        draft.token = token(tokens, asked: configuration.scopes, loggedInAt: loggedInAt)
    }

    /// The redirect URI that received the code: the configured one, or one on this machine.
    private func redirectURI(of code: AuthorizationCode) throws(ErsteGroupAuthError) -> String {
        guard let named = code.redirectURI, named != configuration.redirectURI else {
            guard let configured = configuration.redirectURI else {
                throw .invalidConfiguration(
                    "redirectURI", "is missing; the app's channel requires it")
            }
            return configured
        }
        let isLoopback = Endpoint(named).map { $0.scheme == "http" } ?? false
        guard isLoopback else {
            throw ErsteGroupAuthError(
                code: .invalidInput,
                reason: "the code was sent to another address than the configured one",
                recovery: "Use the configured redirect URI.")
        }
        return named
    }

    /// Gets the server's shares and opens all levels.
    func openLevels(_ context: FlowContext, _ draft: inout SessionDraft) async throws {
        let enrolment = try enrolment()
        let server = try await server()
        var shares: LevelKeyShares?
        if enrolment.isShared {
            guard let secret = draft.token?.handle.authorization else { throw CancellationError() }
            let assertion = try await sign(
                .levelShares, with: enrolment.deviceKey, enrolmentID: enrolment.id, at: server,
                in: context)
            shares = try await server.levelShares(
                enrolment.id, assertion: assertion, token: secret)
        }
        draft.levels = try levelKeys(enrolment, shares)
        try await countOnline(context, &draft)
        await tryRemovingUnusedKeys(enrolment, at: server, in: context)
    }

    /// Signs with the easy-access key, which requires user verification.
    func authenticateEasily(_ context: FlowContext, _ draft: inout SessionDraft) async throws {
        let enrolment = try enrolment()
        guard let key = enrolment.easyAccess?.key else {
            throw ErsteGroupAuthError.refusal(.easyAccessDisabled)
        }
        // Stores the time, so that setting the clock back is detected.
        draft.counters = try await count(context) { [now] in $0.see(now) }
        let server = try await serverForTokens(context)
        let challenge = try await server.challenge()
        let assertion = try await countingAttempt(context, &draft) { presence in
            try await signEasily(
                challenge, with: key, of: enrolment, at: server, in: context, authorizedBy: presence
            )
        }
        try Task.checkCancellation()
        let answer = try await server.token(
            LockerServer.easyAccessGrant, assertion, scopes: configuration.scopes)
        let tokens = try answer.checkedTokens()
        if let idToken = tokens.idToken {
            let claims = try server.client.idTokens.checkClaims(
                idToken, now: now, serverDate: answer.date)
            guard claims.sub == enrolment.userID else {
                throw ErsteGroupAuthError.invalidResponse(
                    "the server's ID token is of another user: its ‘sub’ is not the enrolled user's"
                )
            }
        } else if configuration.scopes.contains("openid") {
            _ = try tokens.required(.idToken, for: ErsteGroupAuthErrorCode.self)
        }
        draft.token = token(tokens, asked: configuration.scopes)
        draft.levels = try levelKeys(enrolment, answer.shares())
        try await countOnline(context, &draft)
        draft.secret = context.presence.acceptedPIN
        await tryRemovingUnusedKeys(enrolment, at: server, in: context)
    }

    /// Signs with the cached secret if the app allows that, otherwise prompts. A cached secret that
    /// is wrong is discarded.
    private func signEasily(
        _ challenge: String, with key: HardwareKey, of enrolment: Enrolment,
        at server: LockerServer,
        in context: FlowContext, authorizedBy presence: any PresenceAuthority
    ) async throws -> String {
        if context.options.usesCachedSecret, key.policy.hasPIN, let pin = cache.pin {
            log(.info, "using the cached secret")
            do {
                return try await sign(
                    .easyAccess, challenge: challenge, with: key, enrolmentID: enrolment.id,
                    at: server,
                    in: context,
                    authorizedBy: PresenceSession(NobodyPresent(), firstPIN: pin))
            } catch let error as KeystoreError where error.code == .wrongProof {
                cache.clear()
            }
        }
        return try await prompting {
            try await sign(
                .easyAccess, challenge: challenge, with: key, enrolmentID: enrolment.id, at: server,
                in: context, authorizedBy: presence)
        }
    }

    // MARK: For both

    /// - Parameter asked: The requested scopes. A response without scopes grants them (RFC 6749
    ///   section 5.1).
    func token(_ tokens: TokenResponse, asked: [String], loggedInAt: Date? = nil) -> AccessToken {
        AccessToken(
            tokens.accessToken, isBound: tokens.isBound,
            expiresAt: now.addingTimeInterval(tokens.lifetime),
            scopes: tokens[.scope]?.split(separator: " ").map(String.init) ?? asked,
            loggedInAt: loggedInAt)
    }

    /// The keys of all levels of an active session.
    private func levelKeys(
        _ enrolment: Enrolment, _ shares: LevelKeyShares?
    ) throws(ErsteGroupAuthError) -> [ProtectionLevel: LevelKey] {
        var levels = try open(.active, of: enrolment, share: shares?.active)
        levels.merge(try open(.background, of: enrolment, share: shares?.background)) { $1 }
        levels[.base] = enrolment.baseKey
        return levels
    }

    /// The keys of one level and of the levels wrapped under it.
    ///
    /// - Parameter share: The server's share of the level; not used if the enrolment has no shares.
    func open(
        _ level: ProtectionLevel, of enrolment: Enrolment, share: SecretBytes?
    ) throws(ErsteGroupAuthError) -> [ProtectionLevel: LevelKey] {
        guard !enrolment.isShared || share != nil else {
            throw .invalidResponse("the server sent no key share")
        }
        do {
            return try enrolment.wraps.open(
                level, deviceSecret: enrolment.deviceSecret,
                share: enrolment.isShared ? share : nil,
                enrolmentID: enrolment.id)
        } catch {
            throw .invalidResponse("the server's key share does not belong to this enrolment")
        }
    }

    /// Records the start with a network. Not cancelled with the call, because the server has
    /// already issued tokens.
    private func countOnline(_ context: FlowContext, _ draft: inout SessionDraft) async throws {
        let now = now
        draft.counters = try await finish {
            try await self.count(context) { $0.reset(online: now) }
        }
    }
}
