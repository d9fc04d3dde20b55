internal import FoundationEssentials
internal import Latchkey
internal import Synchronization

/// Runs calls: performs the actions of the session machine, and applies their results to the
/// session.
extension Locker {
    func run(_ call: SessionMachine.Call, _ context: FlowContext) async throws -> AuthSessionStatus
    {
        lockIfIdle()
        let task = try state.withLock { state throws(ErsteGroupAuthError) in
            let first = state.machine?.begin(
                call, hasFreshLogin: state.token?.isOfFreshLogin(at: now) ?? false)
            guard let first else { throw .refusal(.notInitialized) }
            if case .refuse(let code) = first { throw .refusal(code) }
            let task = Task { try await drive(call, from: first, in: context) }
            state.flow = task
            return task
        }
        return try await withTaskCancellationHandler {
            try await task.value
        } onCancel: {
            task.cancel()
        }
    }

    private func drive(
        _ call: SessionMachine.Call, from first: SessionMachine.Step, in context: FlowContext
    ) async throws -> AuthSessionStatus {
        var draft = SessionDraft()
        var step = first
        var failure: ErsteGroupAuthError?
        while case .perform(let action) = step {
            var answer = SessionMachine.Answer.done
            do {
                try await perform(action, in: context, &draft)
            } catch {
                let error = ErsteGroupAuthError(any: error)
                answer = .failed(isLast(error, draft) ? .secretExhausted : error.cause)
                // An error of the clean-up does not replace the error before it.
                if failure == nil || !action.isCleanUp(after: call) { failure = error }
                log(.warning, "failed: \(error.code)")
            }
            step = apply(answer, to: call, draft)
        }
        switch step {
        case .refuse(let code): throw ErsteGroupAuthError.refusal(code)
        case .fail: throw failure ?? .cancelled()
        case .succeed, .perform: return authSessionStatus
        }
    }

    /// Whether the error is the last wrong secret that the configuration allows. The hardware's count
    /// does not decide: all its users share it, and its answers are not authenticated.
    private func isLast(_ error: ErsteGroupAuthError, _ draft: SessionDraft) -> Bool {
        error.code == .wrongSecret
            && draft.counters?.failures ?? 0 >= configuration.maximumAttempts
    }

    private func perform(
        _ action: SessionMachine.Action, in context: FlowContext, _ draft: inout SessionDraft
    ) async throws {
        switch action {
        case .authenticateStrongly: try await authenticateStrongly(context, &draft)
        case .enrol: try await enrol(context, &draft)
        case .openLevels: try await openLevels(context, &draft)
        case .authenticateEasily: try await authenticateEasily(context, &draft)
        case .verifyOffline: try await verifyOffline(context, &draft)
        case .registerEasyAccess: try await registerEasyAccess(context, &draft)
        case .removeEasyAccess: try await removeEasyAccess(context, &draft)
        case .deleteLocalEasyAccess: try await deleteLocalEasyAccess(context, &draft)
        case .deleteBlockedEasyAccess: try await deleteBlockedEasyAccess(context, &draft)
        case .destroy: try await deleteEnrolment(context, &draft)
        case .purge: try await deleteRevokedEnrolment(context, &draft)
        }
    }

    /// Reports a result to the machine. When the call ends, its results become the session's in the
    /// same critical section.
    private func apply(
        _ answer: SessionMachine.Answer, to call: SessionMachine.Call, _ draft: SessionDraft
    ) -> SessionMachine.Step {
        let use = SessionUse(at: now)
        let (step, old, new, isSuperseded) = state.withLock { state in
            let old = state.status(configuration.offlineVerification)
            let isSuperseded = state.machine?.isSuperseded ?? false
            let step = state.machine?.receive(answer) ?? .fail
            if case .perform = step { return (step, old, old, isSuperseded) }
            state.flow = nil
            if step == .succeed { state.lastUse = use }
            adopt(draft, endedWell: step == .succeed, &state)
            return (step, old, state.status(configuration.offlineVerification), isSuperseded)
        }
        if case .perform = step { return step }
        watchIdleness()
        // The hardware may have accepted a proof for this call after the session ended.
        if isSuperseded { forgetProofs() }
        if old != new {
            publish(old, new, cause: step == .succeed || call == .destroy ? call.cause : .revoked)
        }
        return step
    }

    private func adopt(_ draft: SessionDraft, endedWell: Bool, _ state: inout LockerState) {
        if let enrolment = draft.enrolment { state.enrolment = enrolment }
        // The call may have deleted the enrolment.
        if state.machine?.phase == .unregistered { state.enrolment = nil }
        if let counters = draft.counters { state.counters = counters }
        if endedWell, let token = draft.token {
            state.token?.handle.close()
            state.token = token
            cache.keep(draft.secret)
        } else {
            draft.token?.handle.close()
        }
        var levels = endedWell ? draft.levels : [:]
        levels[.base] = state.enrolment?.baseKey
        state.discardStale()
        keyring.adopt(levels, in: state.machine?.phase ?? .unregistered)
    }

    /// Forgets the user verification: the cached secret, and the earlier proof that the hardware
    /// would accept.
    func forgetProofs() {
        cache.clear()
        configuration.records.keystore.endReuse()
    }

    func publish(
        _ old: AuthSessionStatus, _ new: AuthSessionStatus, cause: AuthSessionChange.Cause
    ) {
        log(.info, "\(cause): \(old.phase) → \(new.phase)")
        changes.tell(AuthSessionChange(old: old, new: new, cause: cause))
    }

    /// Cancels a running call that can prompt, and waits for its end. Other calls continue.
    ///
    /// - Returns: Whether there was such a call.
    @discardableResult
    func withdrawPrompt() async -> Bool {
        guard let flow = state.withLock({ $0.machine?.mayPrompt == true ? $0.flow : nil }) else {
            return false
        }
        flow.cancel()
        _ = await flow.result
        return true
    }
}

extension SessionMachine.Action {
    fileprivate func isCleanUp(after call: SessionMachine.Call) -> Bool {
        switch self {
        case .purge, .deleteLocalEasyAccess, .deleteBlockedEasyAccess: true
        case .destroy: call != .destroy
        default: false
        }
    }
}

extension SessionMachine.Call {
    fileprivate var cause: AuthSessionChange.Cause {
        switch self {
        case .start: .started
        case .lock: .locked
        case .destroy: .destroyed
        case .enableEasyAccess: .easyAccessEnabled
        case .disableEasyAccess: .easyAccessDisabled
        case .changeEasyAccess: .easyAccessChanged
        }
    }
}
