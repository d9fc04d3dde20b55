public import FoundationEssentials
package import Latchkey
internal import LatchkeyJOSE
internal import LatchkeyOAuth
internal import Synchronization

extension Locker {
    /// Joins the running request for background access, or starts one.
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
    /// - enrolment: The enrolment that requests background access.
    /// - epoch: The session of the request.
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

    /// Gets a narrow token and the keys of its level. Does not prompt.
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
                context.operation, "the server's token has more scopes than requested")
        }
        return (token, levels)
    }

    /// Applies the outcome to the session, unless the session has ended.
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
                // Background access does not prompt, so it does not count as use of an active session.
                if state.machine?.phase == .backgroundAccess { state.lastUse = use }
            } else {
                token?.handle.close()
            }
            state.discardStale()
            keyring.adopt(step == .succeed ? levels : [:], in: state.machine?.phase ?? .unregistered)
            let new = state.status(configuration.offlineVerification)
            // An active session keeps its own token. The caller gets the narrow one.
            let result = AuthSessionStatus(
                phase: new.phase, isEasyAccessEnabled: new.isEasyAccessEnabled, accessToken: state.narrowToken,
                offlineAttemptsLeft: new.offlineAttemptsLeft)
            return (step, old, new, result)
        }
        if step == .succeed { watchIdleness() }
        if old != new { publish(old, new, step == .succeed ? .backgroundAccess : .revoked) }
        switch step {
        case .succeed: return .success(result)
        case .fail, .purge: break
        case .refuseNotEnrolled where error == nil:
            return .failure(BackgroundAccessError(.refusal("get background access", .notEnrolled)))
        case .refuseNotEnrolled: break
        case .drop where error == nil:
            return .failure(
                BackgroundAccessError(.cancelled("get background access", "the session ended during the request")))
        case .drop: break
        }
        return .failure(error ?? BackgroundAccessError(.refusal("get background access", .notEnrolled)))
    }
}

/// An error of background access. Two errors are equal when their ``code`` is equal.
public struct BackgroundAccessError: Error, Sendable {
    /// The kind of error.
    public enum Code: String, Hashable, Sendable {
        /// This device is not enrolled.
        case notEnrolled
        /// The server does not allow it.
        case notPermitted
        /// The server can't be reached.
        case network
        /// The server's answer does not follow the protocol.
        case server
        /// The server no longer knows the enrolment; it was deleted here too.
        case enrolmentRevoked
        /// The device's key or the store can't be used.
        case deviceKeyUnavailable
        /// The task was cancelled.
        case cancelled
    }

    /// The kind of error.
    public let code: Code
    /// The underlying error.
    public let cause: ErsteGroupAuthError

    init(_ cause: ErsteGroupAuthError) {
        self.cause = cause
        code =
            switch cause.code {
            case .notEnrolled: .notEnrolled
            case .network, .offline: .network
            case .enrolmentRevoked: .enrolmentRevoked
            case .userCancelled: .cancelled
            case .server:
                ["unauthorized_client", "invalid_scope", "unsupported_grant_type"].contains(cause.serverError)
                    ? .notPermitted : .server
            case .strongAuthRequired, .easyAccessRevoked, .userMismatch: .notPermitted
            default: .deviceKeyUnavailable
            }
    }

    /// The corresponding code of `KeystoreError`, which determines the tool's exit code.
    package var keystoreCode: KeystoreError.Code { cause.code.keystoreCode }

    /// The cause that the session machine distinguishes.
    var answer: SessionMachine.BackgroundAnswer {
        switch code {
        case .enrolmentRevoked: .enrolmentRevoked
        case .deviceKeyUnavailable: .deviceKeyUnusable
        default: .failed
        }
    }
}

extension BackgroundAccessError: Equatable, CustomStringConvertible, LocalizedError {
    public static func == (left: Self, right: Self) -> Bool { left.code == right.code }
    public var description: String { cause.description }
    public var errorDescription: String? { cause.description }
    public var recoverySuggestion: String? { cause.recovery }
}
