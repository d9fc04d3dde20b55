internal import Latchkey

/// The state machine of a session, without hardware, network or clock.
///
/// The caller begins a call, performs the action of each returned step, and reports the result,
/// until the call ends. Only this type changes the status, and only when a call ends or when an
/// enrolment or a key is permanently deleted.
struct SessionMachine: Sendable {
    private(set) var phase: SessionPhase
    /// Whether there is an easy-access key.
    private(set) var hasEasyAccess: Bool
    /// Whether offline verification is allowed.
    let allowsOffline: Bool
    /// What happens after the last wrong secret that the configuration allows.
    let exhaustion: SecretExhaustion
    /// The number of the session. It increases when a session ends: a call that began in one
    /// session opens nothing in the next.
    private(set) var epoch = 0
    private var flow: (call: Call, action: Action, epoch: Int)?

    init(
        phase: SessionPhase, hasEasyAccess: Bool, allowsOffline: Bool,
        exhaustion: SecretExhaustion = .disableEasyAccess
    ) {
        self.phase = phase
        self.hasEasyAccess = hasEasyAccess
        self.allowsOffline = allowsOffline
        self.exhaustion = exhaustion
    }

    /// A call. One runs at a time.
    enum Call: Hashable, Sendable {
        case start(RequiredLevel)
        case lock
        case destroy
        case enableEasyAccess
        case disableEasyAccess
        case changeEasyAccess

        /// Whether the call can prompt.
        var mayPrompt: Bool {
            switch self {
            case .start, .enableEasyAccess, .changeEasyAccess: true
            case .lock, .destroy, .disableEasyAccess: false
            }
        }
    }

    /// The next action.
    enum Action: Hashable, Sendable, CaseIterable {
        /// Lets the user log in at the server. Prompts.
        case authenticateStrongly
        /// Enrols the device at the server, and sets the secret of easy access. Prompts.
        case enrol
        /// Gets the server's shares after strong authentication.
        case openLevels
        /// Signs with the easy-access key, and gets a token and the shares for it. Prompts.
        case authenticateEasily
        /// Verifies the secret with the hardware, without a network. Prompts.
        case verifyOffline
        /// Sets a new secret, and replaces the old key by its key. Prompts.
        case registerEasyAccess
        /// Removes the easy-access keys at the server, then here.
        case removeEasyAccess
        /// Deletes easy access here, after the server has removed its key.
        case deleteLocalEasyAccess
        /// Deletes easy access here, after too many wrong secrets. The key is removed at the server
        /// when that can be reached.
        case deleteBlockedEasyAccess
        case destroy
        /// Deletes an enrolment that the server no longer knows.
        case purge
    }

    /// The result of an action.
    enum Answer: Hashable, Sendable {
        case done
        case failed(Cause)
    }

    /// The causes of a failure that the machine distinguishes.
    enum Cause: Hashable, Sendable {
        case network
        /// The secret was wrong, and the configuration allows no further attempt.
        case secretExhausted
        /// The server knows the enrolment and not the easy-access key.
        case easyAccessRevoked
        case enrolmentRevoked
        /// Offline verification is no longer allowed.
        case verificationUnavailable
        /// The enrolment is deleted here and not yet at the server.
        case revocationPending
        case other
    }

    enum Step: Hashable, Sendable {
        case perform(Action)
        /// The call succeeds.
        case succeed
        /// The call ends with the error of the action that failed.
        case fail
        /// The call ends with this error.
        case refuse(ErsteGroupAuthError.Code)
    }

    /// Whether a call is running.
    var isInteracting: Bool { flow != nil }

    /// Whether the running call can show a prompt or a page.
    var mayPrompt: Bool { flow?.call.mayPrompt ?? false }

    /// Whether the session in which the call began has ended. The stored changes of the call stay,
    /// and the call opens nothing.
    var isSuperseded: Bool { flow.map { $0.epoch != epoch } ?? false }

    // MARK: Calls

    /// - Parameter hasFreshLogin: Whether the server still accepts a new secret for the login of
    ///   this session.
    mutating func begin(_ call: Call, hasFreshLogin: Bool = false) -> Step {
        // A lock does not wait for other calls.
        guard flow == nil || call == .lock else { return .refuse(.userInteractionInProgress) }
        switch call {
        case .start(let level): return begin(call, level)
        case .lock:
            epoch += 1
            guard phase != .unregistered else { return .refuse(.notEnrolled) }
            phase = .enrolled
            return .succeed
        case .destroy:
            guard phase != .unregistered else { return .refuse(.notEnrolled) }
            epoch += 1
            return next(.destroy, for: call)
        case .enableEasyAccess, .disableEasyAccess, .changeEasyAccess:
            guard phase.isActive else {
                return .refuse(phase == .unregistered ? .notEnrolled : .notActive)
            }
            guard hasEasyAccess == (call != .enableEasyAccess) else {
                return .refuse(hasEasyAccess ? .easyAccessEnabled : .easyAccessDisabled)
            }
            switch call {
            case .disableEasyAccess: return next(.removeEasyAccess, for: call)
            case .enableEasyAccess where hasFreshLogin: return next(.registerEasyAccess, for: call)
            default: return next(.authenticateStrongly, for: call)
            }
        }
    }

    private mutating func begin(_ call: Call, _ level: RequiredLevel) -> Step {
        guard phase != .unregistered else {
            return level == .easyAccess
                ? .refuse(.notEnrolled) : next(.authenticateStrongly, for: call)
        }
        switch level {
        case .easyAccess where !hasEasyAccess: return .refuse(.easyAccessDisabled)
        case .any where hasEasyAccess, .easyAccess: return next(.authenticateEasily, for: call)
        case .any, .strong: return next(.authenticateStrongly, for: call)
        }
    }

    /// Takes the result of the last step's action.
    mutating func receive(_ answer: Answer) -> Step {
        guard let (call, action, _) = flow else { return .fail }
        switch answer {
        case .done: return succeeded(action, in: call)
        case .failed(let cause): return failed(action, in: call, cause)
        }
    }

    private mutating func succeeded(_ action: Action, in call: Call) -> Step {
        switch action {
        case .authenticateStrongly:
            guard !isSuperseded else { return end(.fail) }
            if call == .enableEasyAccess || call == .changeEasyAccess {
                return next(.registerEasyAccess, for: call)
            }
            return next(phase == .unregistered ? .enrol : .openLevels, for: call)
        case .enrol, .registerEasyAccess: return end(in: .activeViaStrongAuth, easyAccess: true)
        case .openLevels: return end(in: .activeViaStrongAuth, easyAccess: hasEasyAccess)
        case .authenticateEasily: return end(in: .activeViaEasyAccess, easyAccess: true)
        case .verifyOffline: return end(in: .verifiedOffline, easyAccess: true)
        case .removeEasyAccess: return end(in: .enrolled, easyAccess: false)
        case .destroy:
            return end(in: .unregistered, easyAccess: false, call == .destroy ? .succeed : .fail)
        case .deleteLocalEasyAccess, .deleteBlockedEasyAccess:
            return end(in: phase, easyAccess: false, .fail)
        case .purge: return end(in: .unregistered, easyAccess: false, .fail)
        }
    }

    private mutating func failed(_ action: Action, in call: Call, _ cause: Cause) -> Step {
        switch (action, cause) {
        case (.purge, _), (.destroy, .revocationPending):
            return end(in: .unregistered, easyAccess: false, .fail)
        case (_, .enrolmentRevoked) where phase != .unregistered: return next(.purge, for: call)
        case (.authenticateEasily, .easyAccessRevoked):
            return next(.deleteLocalEasyAccess, for: call)
        case (.authenticateEasily, .secretExhausted), (.verifyOffline, .secretExhausted):
            switch exhaustion {
            case .disableEasyAccess: return next(.deleteBlockedEasyAccess, for: call)
            case .destroyEnrolment: return next(.destroy, for: call)
            case .wait: return end(.fail)
            }
        case (.authenticateEasily, .network)
        where allowsOffline && !isSuperseded && !phase.isActive:
            return next(.verifyOffline, for: call)
        case (.verifyOffline, .verificationUnavailable) where phase == .verifiedOffline:
            return end(in: .enrolled, easyAccess: hasEasyAccess, .fail)
        case (.authenticateStrongly, .network) where phase == .verifiedOffline:
            return end(.refuse(.offline))
        default: return end(.fail)
        }
    }

    private mutating func next(_ action: Action, for call: Call) -> Step {
        flow = (call, action, flow?.epoch ?? epoch)
        return .perform(action)
    }

    private mutating func end(_ step: Step) -> Step {
        flow = nil
        return step
    }

    private mutating func end(in phase: SessionPhase, easyAccess: Bool, _ step: Step = .succeed)
        -> Step
    {
        if isSuperseded, phase.isOpen {
            if flow?.action == .enrol { self.phase = .enrolled }
            hasEasyAccess = easyAccess && self.phase != .unregistered
            return end(.fail)
        }
        // Only an enrolment ends the phase `unregistered`.
        if self.phase != .unregistered || flow?.action == .enrol {
            self.phase = phase
            hasEasyAccess = easyAccess
        }
        return end(step)
    }

    /// The session's time without use is over. A running start continues, as from `enrolled`. Other
    /// calls that need the ended session fail.
    ///
    /// - Returns: Whether a session ended.
    mutating func idle() -> Bool {
        guard phase.isOpen else { return false }
        phase = .enrolled
        epoch += 1
        if case .start = flow?.call { flow?.epoch = epoch }
        return true
    }

    /// Another program has changed the stored enrolment.
    ///
    /// - Parameter isSame: Whether it is still the same enrolment. Otherwise the session ends.
    mutating func reload(isEnrolled: Bool, isSame: Bool, hasEasyAccess: Bool) {
        self.hasEasyAccess = hasEasyAccess
        guard !isSame else { return }
        phase = isEnrolled ? .enrolled : .unregistered
        epoch += 1
    }

    // MARK: Background access

    /// The result of a request for background access. It does not prompt, so it can run at the same
    /// time as a call.
    enum BackgroundAnswer: Hashable, Sendable {
        case granted
        case enrolmentRevoked
        /// The device's key can't be used.
        case deviceKeyUnusable
        case failed
    }

    enum BackgroundStep: Hashable, Sendable {
        case succeed
        case fail
        /// Delete the enrolment, then call ``enrolmentWasDeleted()``. The call ends with the error
        /// of the request.
        case purge
        /// The enrolment was destroyed during the request.
        case refuseNotEnrolled
        /// The session ended during the request: the result is discarded.
        case drop
    }

    /// - Parameter epoch: The session in which the request began.
    mutating func receive(_ answer: BackgroundAnswer, of epoch: Int) -> BackgroundStep {
        guard phase != .unregistered else { return .refuseNotEnrolled }
        guard epoch == self.epoch else { return .drop }
        switch answer {
        case .granted:
            if !phase.isActive { phase = .backgroundAccess }
            return .succeed
        case .enrolmentRevoked: return .purge
        case .deviceKeyUnusable:
            if !phase.isActive { phase = .enrolled }
            return .fail
        case .failed: return .fail
        }
    }

    /// Records that the enrolment was deleted outside of a call.
    mutating func enrolmentWasDeleted() {
        phase = .unregistered
        hasEasyAccess = false
        epoch += 1
    }
}
