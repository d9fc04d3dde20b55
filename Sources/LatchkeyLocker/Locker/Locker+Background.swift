internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyOAuth
internal import Synchronization

extension Locker {
    /// The one request for background access that is under way, or a new one.
    func background(
        _ metadata: [String: JSONValue]?
    ) async throws(BackgroundAccessError) -> AuthSessionStatus {
        let context = context("get background access", "get background access", metadata: metadata)
        let task = state.withLock { state in
            if let running = state.background { return running.task }
            let (epoch, enrolment) = (state.machine?.epoch ?? 0, state.enrolment)
            let task = Task { await requestBackground(enrolment, epoch, context) }
            state.background = (task, epoch)
            return task
        }
        return try await task.value.get()
    }

    /// - Parameters:
    ///   - enrolment: The one for which background access is asked.
    ///   - epoch: The session in which it is.
    private func requestBackground(
        _ enrolment: Enrolment?, _ epoch: Int, _ context: FlowContext
    ) async -> Result<AuthSessionStatus, BackgroundAccessError> {
        do {
            guard let enrolment else { throw ErsteGroupAuthError.refusal(context.operation, .notEnrolled) }
            let (token, levels) = try await grant(enrolment, context)
            return settle(.granted, of: epoch, token, levels)
        } catch {
            let error = BackgroundAccessError(ErsteGroupAuthError(context.operation, any: error))
            log(.warning, "no background access: \(error.code)")
            if error.code == .enrolmentRevoked, let enrolment, state.withLock({ $0.machine?.epoch == epoch }) {
                _ = try? await erase(enrolment, adding: [], context)
            }
            return settle(error.answer, of: epoch, nil, [:], error)
        }
    }

    /// A narrow token, and the level that goes with it. Nobody is asked.
    private func grant(
        _ enrolment: Enrolment, _ context: FlowContext
    ) async throws -> (AccessToken, [ProtectionLevel: LevelKey]) {
        let server = try await server(context.operation)
        let assertion = try await sign(
            .backgroundAccess, challenge: server.challenge(), with: enrolment.deviceKey, enrolmentID: enrolment.id,
            server, context, authorizedBy: NobodyPresent())
        let asked = configuration.backgroundScopes ?? []
        let answer = try await server.token(LockerServer.backgroundAccessGrant, assertion, scopes: asked)
        let tokens = try answer.json(TokenResponse.self)
        let shares = try answer.shares()
        let levels = try open(.background, enrolment, enrolment.isShared ? shares?.background : nil, context)
        let offered = asked.isEmpty ? server.discovery.backgroundScopes : asked
        let token = try token(tokens, answer, asked: offered, context)
        guard Set(token.scopes).isSubset(of: offered) else {
            throw ErsteGroupAuthError.invalidResponse(
                context.operation, "the server's token is good for more than asked")
        }
        return (token, levels)
    }

    /// Makes the outcome the session's, if it is still the same.
    private func settle(
        _ answer: SessionMachine.BackgroundAnswer, of epoch: Int, _ token: AccessToken?,
        _ levels: [ProtectionLevel: LevelKey], _ error: BackgroundAccessError? = nil
    ) -> Result<AuthSessionStatus, BackgroundAccessError> {
        let use = SessionUse(at: now)
        let (step, old, new, result) = state.withLock { state in
            if state.background?.epoch == epoch { state.background = nil }
            let old = state.status(configuration.offlineVerification)
            let step = state.machine?.receive(answer, of: epoch) ?? .refuseNotEnrolled
            if step == .purge {
                state.machine?.purged()
                state.enrolment = nil
                state.counters = LockerCounters()
            }
            if step == .succeed, let token {
                state.narrowToken?.handle.close()
                state.narrowToken = token
                // What asks nobody keeps no active session open.
                if state.machine?.phase == .backgroundAccess { state.lastUse = use }
            } else {
                token?.handle.close()
            }
            state.closeRest()
            keyring.adopt(step == .succeed ? levels : [:], in: state.machine?.phase ?? .unregistered)
            let new = state.status(configuration.offlineVerification)
            // An active session keeps its own token; who asked for the narrow one gets that.
            let result = AuthSessionStatus(
                phase: new.phase, isEasyAccessEnabled: new.isEasyAccessEnabled, accessToken: state.narrowToken,
                offlineAttemptsLeft: new.offlineAttemptsLeft)
            return (step, old, new, result)
        }
        if step == .succeed { watchIdleness() }
        if old != new { tell(old, new, step == .succeed ? .backgroundAccess : .revoked) }
        switch step {
        case .succeed: return .success(result)
        case .fail, .purge: break
        case .refuseNotEnrolled where error == nil:
            return .failure(BackgroundAccessError(.refusal("get background access", .notEnrolled)))
        case .refuseNotEnrolled: break
        case .drop where error == nil:
            return .failure(
                BackgroundAccessError(.cancelled("get background access", "the session was ended meanwhile")))
        case .drop: break
        }
        return .failure(error ?? BackgroundAccessError(.refusal("get background access", .notEnrolled)))
    }
}
