internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyJOSE
internal import LatchkeyOAuth
internal import Synchronization

extension Locker {
    /// Joins the running request for background access with this metadata, or starts one.
    func backgroundRequest(_ metadata: [String: JSONValue]?) -> Task<AuthSessionStatus, any Error> {
        let context = context("get background access", metadata: metadata)
        return state.withLock { state in
            let request = BackgroundRequest(metadata: metadata, epoch: state.machine?.epoch ?? 0)
            if let running = state.background[request] { return running }
            let enrolment = state.enrolment
            let task = Task { try await perform(request, of: enrolment, in: context) }
            state.background[request] = task
            return task
        }
    }

    /// - Parameter enrolment: The enrolment that requests background access.
    private func perform(
        _ request: BackgroundRequest, of enrolment: Enrolment?, in context: FlowContext
    ) async throws -> AuthSessionStatus {
        let token: AccessToken
        let levels: [ProtectionLevel: LevelKey]
        do {
            guard let enrolment else { throw ErsteGroupAuthError.refusal(.notEnrolled) }
            (token, levels) = try await grant(enrolment, context)
        } catch {
            let error = ErsteGroupAuthError(any: error)
            let code = BackgroundAccessErrorCode(error)
            log(.warning, "no background access: \(code)")
            if code == .enrolmentRevoked, let enrolment,
                state.withLock({ $0.machine?.epoch == request.epoch })
            {
                _ = try? await erase(enrolment, adding: [], context)
            }
            _ = finish(request, code.answer, token: nil, levels: [:])
            throw error
        }
        let (step, status) = finish(request, .granted, token: token, levels: levels)
        switch step {
        case .succeed: return status
        case .drop: throw ErsteGroupAuthError.cancelled("the session ended during the request")
        case .refuseNotEnrolled, .fail, .purge: throw ErsteGroupAuthError.refusal(.notEnrolled)
        }
    }

    /// Gets a narrow token and the keys of its level. Does not prompt.
    private func grant(
        _ enrolment: Enrolment, _ context: FlowContext
    ) async throws -> (AccessToken, [ProtectionLevel: LevelKey]) {
        let server = try await serverForTokens(context)
        let assertion = try await sign(
            .backgroundAccess, with: enrolment.deviceKey, enrolmentID: enrolment.id, at: server,
            in: context
        )
        let asked = configuration.backgroundScopes ?? []
        let answer = try await server.token(
            LockerServer.backgroundAccessGrant, assertion, scopes: asked)
        let tokens = try answer.checkedTokens()
        let levels = try open(
            .background, of: enrolment, share: answer.shares()?.background)
        let offered = asked.isEmpty ? server.discovery.backgroundScopes : asked
        let token = token(tokens, asked: offered)
        guard Set(token.scopes).isSubset(of: offered) else {
            throw ErsteGroupAuthError.invalidResponse(
                "the server's token has more scopes than requested")
        }
        return (token, levels)
    }

    /// Applies the outcome to the session, unless the session has ended.
    ///
    /// - Returns: The status with the narrow token.
    private func finish(
        _ request: BackgroundRequest, _ answer: SessionMachine.BackgroundAnswer,
        token: AccessToken?, levels: [ProtectionLevel: LevelKey]
    ) -> (SessionMachine.BackgroundStep, AuthSessionStatus) {
        let use = SessionUse(at: now)
        let (step, old, new, result) = state.withLock { state in
            state.background[request] = nil
            let old = state.status(configuration.offlineVerification)
            let step = state.machine?.receive(answer, of: request.epoch) ?? .refuseNotEnrolled
            if step == .purge {
                state.machine?.enrolmentWasDeleted()
                state.enrolment = nil
                state.counters = LockerCounters()
            }
            if step == .succeed, let token {
                // A concurrent request may just have got the previous token.
                if let previous = state.narrowToken { state.earlierNarrowTokens.append(previous) }
                state.closeExpired(at: use.date)
                state.narrowToken = token
                // Background access does not prompt, so it does not count as use of an active
                // session.
                if state.machine?.phase == .backgroundAccess { state.lastUse = use }
            } else {
                token?.handle.close()
            }
            state.discardStale()
            keyring.adopt(
                step == .succeed ? levels : [:], in: state.machine?.phase ?? .unregistered)
            let new = state.status(configuration.offlineVerification)
            // An active session keeps its own token. The caller gets the narrow one.
            let result = AuthSessionStatus(
                phase: new.phase, isEasyAccessEnabled: new.isEasyAccessEnabled,
                accessToken: state.narrowToken,
                offlineAttemptsLeft: new.offlineAttemptsLeft)
            return (step, old, new, result)
        }
        if step == .succeed { watchIdleness() }
        if old != new { publish(old, new, cause: step == .succeed ? .backgroundAccess : .revoked) }
        return (step, result)
    }
}

extension BackgroundAccessErrorCode {
    /// The cause that the session machine distinguishes.
    fileprivate var answer: SessionMachine.BackgroundAnswer {
        switch self {
        case .enrolmentRevoked: .enrolmentRevoked
        case .deviceKeyUnavailable: .deviceKeyUnusable
        case .notEnrolled, .notPermitted, .network, .server, .invalidInput, .conflict, .wrongState,
            .cancelled:
            .failed
        }
    }
}
