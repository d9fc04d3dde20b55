internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyOAuth
internal import Synchronization

/// The ways to an active session.
extension Locker {
    /// Has the user log in at the server. While this device is enrolled, only its user can.
    func authenticateStrongly(_ context: FlowContext, _ draft: inout SessionDraft) async throws {
        let enrolment = state.withLock { $0.enrolment }
        let server = try await server(context.operation)
        if enrolment == nil { try await checkEnrolmentIsPossible(server) }
        let request = StrongAuthenticationRequest(
            authorizationEndpoint: try server.client.endpoint(.authorization).text, clientID: configuration.clientID,
            scope: configuration.scopes.joined(separator: " "), nonce: RandomText.make(),
            redirectURI: configuration.redirectURI, issuer: server.discovery.issuer,
            requiresIssuer: server.discovery.sendsIssuer)
        let begun = now
        let code = try await (context.options.channel ?? configuration.channel).authorize(request)
        try Task.checkCancellation()
        let answer = try await server.exchange(code, redirectURI: try redirectURI(of: code))
        let tokens = try answer.json(TokenResponse.self)
        guard let idToken = tokens.idToken else {
            throw ErsteGroupAuthError.invalidResponse(context.operation, "the server gave no ID token")
        }
        let validator = server.client.idTokens
        let claims = try await validator.validate(
            idToken, keys: server.client.keys(), .init(nonce: request.nonce, accessToken: tokens.accessToken), now: now,
            serverDate: answer.date)
        let loggedInAt = try validator.checkLogin(claims, since: begun, now: now)
        guard enrolment == nil || enrolment?.userID == claims.sub else {
            throw ErsteGroupAuthError(
                operation: context.operation, code: .userMismatch,
                reason: "somebody else logged in than the user for whom this device is enrolled",
                recovery: "Log in as that user, or destroy the enrolment first.")
        }
        draft.userID = claims.sub
        draft.token = try token(tokens, answer, asked: configuration.scopes, loggedInAt: loggedInAt, context)
    }

    /// The address to which the code came: the configured one, or one of this machine's own.
    private func redirectURI(of code: AuthorizationCode) throws(ErsteGroupAuthError) -> String {
        guard let named = code.redirectURI, named != configuration.redirectURI else {
            guard let configured = configuration.redirectURI else {
                throw .invalidConfiguration("redirectURI", "is missing; a channel of one's own needs it")
            }
            return configured
        }
        let isLoopback = Endpoint(named).map { $0.scheme == "http" } ?? false
        guard isLoopback else {
            throw ErsteGroupAuthError(
                operation: "log in", code: .invalidInput,
                reason: "the code came to another address than the configured",
                recovery: "Use the configured redirect URI.")
        }
        return named
    }

    /// Gets the server's shares and opens all levels.
    func openLevels(_ context: FlowContext, _ draft: inout SessionDraft) async throws {
        let enrolment = try enrolment(context.operation)
        let server = try await server(context.operation)
        var shares: LevelShares?
        if enrolment.isShared {
            guard let secret = draft.token?.handle.secret else { throw CancellationError() }
            let assertion = try await sign(
                .levelShares, challenge: server.challenge(), with: enrolment.deviceKey, enrolmentID: enrolment.id,
                server, context, authorizedBy: NobodyPresent())
            shares = try await server.levelShares(enrolment.id, assertion, secret)
        }
        draft.levels = try open(enrolment, shares, context)
        try await countOnline(context, &draft)
        _ = try? await finish { try await self.removeLeftovers(enrolment, server, context) }
    }

    /// Has the easy-access key sign: the one prompt, and the one use of hardware that a person opens.
    func authenticateEasily(_ context: FlowContext, _ draft: inout SessionDraft) async throws {
        let enrolment = try enrolment(context.operation)
        guard let key = enrolment.easyAccess?.key else {
            throw ErsteGroupAuthError.refusal(context.operation, .easyAccessDisabled)
        }
        // Remembers the time, so that a clock that is set back shows.
        draft.counters = try await count(context) { [now] in $0.see(now) }
        let server = try await server(context.operation)
        let challenge = try await server.challenge()
        let assertion = try await signEasily(key, challenge, enrolment, server, context)
        context.consent.confirm()
        try Task.checkCancellation()
        let answer = try await server.token(LockerServer.easyAccessGrant, assertion, scopes: configuration.scopes)
        let tokens = try answer.json(TokenResponse.self)
        if let idToken = tokens.idToken {
            let claims = try server.client.idTokens.checkClaims(idToken, now: now, serverDate: answer.date)
            guard claims.sub == enrolment.userID else {
                throw ErsteGroupAuthError.invalidResponse(context.operation, "the server answered for another user")
            }
        } else if configuration.scopes.contains("openid") {
            throw ErsteGroupAuthError.invalidResponse(context.operation, "the server gave no ID token")
        }
        draft.token = try token(tokens, answer, asked: configuration.scopes, context)
        draft.levels = try open(enrolment, answer.shares(), context)
        try await countOnline(context, &draft)
        draft.secret = context.consent.pin
        _ = try? await finish { try await self.removeLeftovers(enrolment, server, context) }
    }

    /// Signs with the secret that was right a while ago, where the app wants that, else with one that is asked for. A
    /// kept one that is wrong by now is forgotten.
    private func signEasily(
        _ key: HardwareKey, _ challenge: String, _ enrolment: Enrolment, _ server: LockerServer, _ context: FlowContext
    ) async throws -> String {
        if context.options.usesCachedSecret, key.policy.hasPIN, let pin = cache.pin {
            log(.info, "the kept secret serves again")
            do {
                return try await sign(
                    .easyAccess, challenge: challenge, with: key, enrolmentID: enrolment.id, server, context,
                    authorizedBy: OnePINConsent(NobodyPresent(), offering: pin))
            } catch let error as KeystoreError where error.code == .wrongProof {
                cache.clear()
            }
        }
        return try await sign(
            .easyAccess, challenge: challenge, with: key, enrolmentID: enrolment.id, server, context)
    }

    // MARK: For both

    func token(
        _ tokens: TokenResponse, _ answer: ServerResponse<ErsteGroupAuthError>, asked: [String],
        loggedInAt: Date? = nil,
        _ context: FlowContext
    ) throws(ErsteGroupAuthError) -> AccessToken {
        AccessToken(
            tokens.accessToken, expiresAt: now.addingTimeInterval(TimeInterval(tokens.expiresIn)),
            scopes: try answer.scopes(asked: asked), loggedInAt: loggedInAt)
    }

    /// All levels of an active session.
    private func open(
        _ enrolment: Enrolment, _ shares: LevelShares?, _ context: FlowContext
    ) throws(ErsteGroupAuthError) -> [ProtectionLevel: LevelKey] {
        var levels = try open(.active, enrolment, enrolment.isShared ? shares?.active : nil, context)
        levels.merge(try open(.background, enrolment, enrolment.isShared ? shares?.background : nil, context)) { $1 }
        levels[.base] = enrolment.baseKey
        return levels
    }

    /// The keys of one level, and of what is wrapped under it.
    func open(
        _ level: ProtectionLevel, _ enrolment: Enrolment, _ share: SecretBytes?, _ context: FlowContext
    ) throws(ErsteGroupAuthError) -> [ProtectionLevel: LevelKey] {
        guard enrolment.isShared == (share != nil) else {
            throw .invalidResponse(context.operation, "the server gave no share of the keys")
        }
        do {
            return try enrolment.wraps.open(
                level, deviceSecret: enrolment.deviceSecret, share: share, enrolmentID: enrolment.id)
        } catch {
            throw .invalidResponse(context.operation, "the server's share of the keys is not the one of this enrolment")
        }
    }

    /// Stores that the server was there, although the call was dismissed meanwhile: what the server gave is given.
    private func countOnline(_ context: FlowContext, _ draft: inout SessionDraft) async throws {
        let now = now
        draft.counters = try await finish { try await self.count(context) { $0.reset(online: now) } }
    }
}
