internal import FoundationEssentials
internal import Latchkey
internal import Synchronization

/// Drives the session machine: begins calls, performs actions, and makes what they brought the session's.
extension Locker {
    func run(
        _ call: SessionMachine.Call, _ context: FlowContext
    ) async throws(ErsteGroupAuthError) -> AuthSessionStatus {
        lockIfIdle()
        let task = try state.withLock { state throws(ErsteGroupAuthError) in
            let first = state.machine?.begin(call, hasFreshLogin: state.token?.isOfFreshLogin(at: now) ?? false)
            guard let first else {
                throw ErsteGroupAuthError(
                    operation: context.operation, code: .notInitialized, reason: "the locker is not open",
                    recovery: "Initialize it first.")
            }
            if case .refuse(let code) = first { throw ErsteGroupAuthError.refusal(context.operation, code) }
            let task = Task { await drive(call, first, context) }
            state.flow = task
            return task
        }
        let result = await withTaskCancellationHandler {
            await task.value
        } onCancel: {
            task.cancel()
        }
        return try result.get()
    }

    private func drive(
        _ call: SessionMachine.Call, _ first: SessionMachine.Step, _ context: FlowContext
    ) async -> Result<AuthSessionStatus, ErsteGroupAuthError> {
        var draft = SessionDraft()
        var step = first
        var failure: ErsteGroupAuthError?
        while case .perform(let action) = step {
            var answer = SessionMachine.Answer.done
            do {
                try await perform(action, context, &draft)
            } catch {
                let error = ErsteGroupAuthError(context.operation, any: error)
                answer = .failed(error.cause)
                // What is tidied up after a failure does not hide it.
                if failure == nil || !action.isTidyingUp(after: call) { failure = error }
                log(.warning, "failed: \(error.code)")
            }
            step = settle(answer, call, draft)
        }
        switch step {
        case .refuse(let code): return .failure(.refusal(context.operation, code))
        case .fail: return .failure(failure ?? .cancelled(context.operation))
        case .succeed, .perform: return .success(authSessionStatus)
        }
    }

    private func perform(
        _ action: SessionMachine.Action, _ context: FlowContext, _ draft: inout SessionDraft
    ) async throws {
        switch action {
        case .authenticateStrongly: try await authenticateStrongly(context, &draft)
        case .enrol: try await enrol(context, &draft)
        case .openLevels: try await openLevels(context, &draft)
        case .authenticateEasily: try await authenticateEasily(context, &draft)
        case .verifyOffline: try await verifyOffline(context, &draft)
        case .registerEasyAccess: try await registerEasyAccess(context, &draft)
        case .removeEasyAccess: try await removeEasyAccess(context, &draft)
        case .dropEasyAccess: try await dropEasyAccess(context, &draft)
        case .giveUpEasyAccess: try await giveUpEasyAccess(context, &draft)
        case .destroy: try await destroy(context, &draft)
        case .purge: try await purge(context, &draft)
        }
    }

    /// Hands an answer to the machine; when that ends the call, the draft becomes the session's in the same moment.
    private func settle(
        _ answer: SessionMachine.Answer, _ call: SessionMachine.Call, _ draft: SessionDraft
    ) -> SessionMachine.Step {
        let use = SessionUse(at: now)
        let (step, old, new, isSuperseded) = state.withLock { state in
            let old = state.status(configuration.offlineVerification)
            let isSuperseded = state.machine?.isSuperseded ?? false
            let step = state.machine?.receive(answer) ?? .fail
            guard !step.goesOn else { return (step, old, old, isSuperseded) }
            state.flow = nil
            if step == .succeed { state.lastUse = use }
            adopt(draft, endedWell: step == .succeed, &state)
            return (step, old, state.status(configuration.offlineVerification), isSuperseded)
        }
        if !step.goesOn {
            watchIdleness()
            // The hardware may have taken a proof for it after the session had ended.
            if isSuperseded { forgetProofs() }
        }
        if old != new { tell(old, new, step == .succeed || call == .destroy ? call.cause : .revoked) }
        return step
    }

    private func adopt(_ draft: SessionDraft, endedWell: Bool, _ state: inout LockerState) {
        if let enrolment = draft.enrolment { state.enrolment = enrolment }
        // It may have gone within the call.
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
        state.closeRest()
        keyring.adopt(levels, in: state.machine?.phase ?? .unregistered)
    }

    /// Forgets that somebody was recognised: what is kept of the secret here, and what the hardware would take instead of
    /// it.
    func forgetProofs() {
        cache.clear()
        configuration.records.keystore.endReuse()
    }

    func tell(_ old: AuthSessionStatus, _ new: AuthSessionStatus, _ cause: AuthSessionChange.Cause) {
        log(.info, "\(cause): \(old.phase) → \(new.phase)")
        changes.tell(AuthSessionChange(old: old, new: new, cause: cause))
    }

    /// Withdraws a call that may be asking somebody, and waits until it is gone. Any other goes on.
    ///
    /// - Returns: Whether there was one.
    @discardableResult
    func withdraw() async -> Bool {
        guard let flow = state.withLock({ $0.machine?.mayAsk == true ? $0.flow : nil }) else { return false }
        flow.cancel()
        _ = await flow.value
        return true
    }
}

extension SessionMachine.Step {
    fileprivate var goesOn: Bool {
        if case .perform = self { true } else { false }
    }
}

extension SessionMachine.Action {
    fileprivate func isTidyingUp(after call: SessionMachine.Call) -> Bool {
        switch self {
        case .purge, .dropEasyAccess, .giveUpEasyAccess: true
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
