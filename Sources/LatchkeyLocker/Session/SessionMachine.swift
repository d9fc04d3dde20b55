/// What follows what in a session: a value without hardware, network or clock.
///
/// Whoever drives it begins a call, performs the action of the step that comes back, and hands the answer in, until the
/// call ends. The status changes here and nowhere else, and only when a call ends or something is gone for good.
struct SessionMachine: Sendable {
    private(set) var phase: SessionPhase
    /// Whether there is an easy-access key.
    private(set) var hasEasyAccess: Bool
    /// Whether a person may be recognised without the network.
    let allowsOffline: Bool
    /// What follows the last secret that the hardware takes.
    let exhaustion: SecretExhaustion
    /// Which session this is. It rises whenever one ends: what was begun in one opens nothing in the next.
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

    /// What can be wanted of a session; one at a time.
    enum Call: Hashable, Sendable {
        case start(RequiredLevel)
        case lock
        case destroy
        case enableEasyAccess
        case disableEasyAccess
        case changeEasyAccess

        /// Whether somebody may be asked for it.
        var mayAsk: Bool {
            switch self {
            case .start, .enableEasyAccess, .changeEasyAccess: true
            case .lock, .destroy, .disableEasyAccess: false
            }
        }
    }

    /// What is to be done next.
    enum Action: Hashable, Sendable, CaseIterable {
        /// Has the user log in at the server, which asks.
        case authenticateStrongly
        /// Makes the device known to the server, and sets the secret of easy access.
        case enrol
        /// Gets the server's shares after strong authentication.
        case openLevels
        /// Has the easy-access key sign, which asks, and gets a token and the shares for it.
        case authenticateEasily
        /// Has the hardware check the secret, which asks.
        case verifyOffline
        /// Sets a new secret, which asks, and puts its key in the place of the old one.
        case registerEasyAccess
        /// Takes the easy-access keys away, at the server and here.
        case removeEasyAccess
        /// Takes them away here, where the server has done so already.
        case dropEasyAccess
        /// Takes them away here, where the hardware takes no secret any more: the server has yet to hear of it.
        case giveUpEasyAccess
        case destroy
        /// Deletes an enrolment that the server no longer knows.
        case purge
    }

    /// What came of an action.
    enum Answer: Hashable, Sendable {
        case done
        case failed(Cause)
    }

    /// What of a failure matters here.
    enum Cause: Hashable, Sendable {
        case network
        /// The secret was wrong, and no attempt is left.
        case secretExhausted
        /// The server knows the enrolment and not the easy-access key.
        case easyAccessRevoked
        case enrolmentRevoked
        /// The person may not be recognised without the network any more.
        case verificationUnavailable
        /// All is deleted here, and the server could not be told.
        case revocationPending
        case other
    }

    enum Step: Hashable, Sendable {
        case perform(Action)
        /// The call ends well.
        case succeed
        /// The call ends with the error of the action that failed.
        case fail
        /// The call ends with this error.
        case refuse(ErsteGroupAuthError.Code)
    }

    /// Whether a call is under way.
    var isInteracting: Bool { flow != nil }

    /// Whether somebody may be looking at a prompt or a page.
    var mayAsk: Bool { flow?.call.mayAsk ?? false }

    /// Whether the session has ended in which the call was begun: what it stored stands, and it opens nothing any more.
    var isSuperseded: Bool { flow.map { $0.epoch != epoch } ?? false }

    // MARK: Calls

    /// - Parameter hasFreshLogin: Whether the user logged in for this session a moment ago, so that the server takes a new
    ///   secret without another login.
    mutating func begin(_ call: Call, hasFreshLogin: Bool = false) -> Step {
        // A lock waits for nobody.
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
            return perform(.destroy, for: call)
        case .enableEasyAccess, .disableEasyAccess, .changeEasyAccess:
            guard phase.isActive else { return .refuse(phase == .unregistered ? .notEnrolled : .notActive) }
            guard hasEasyAccess == (call != .enableEasyAccess) else {
                return .refuse(hasEasyAccess ? .easyAccessEnabled : .easyAccessDisabled)
            }
            switch call {
            case .disableEasyAccess: return perform(.removeEasyAccess, for: call)
            case .enableEasyAccess where hasFreshLogin: return perform(.registerEasyAccess, for: call)
            default: return perform(.authenticateStrongly, for: call)
            }
        }
    }

    private mutating func begin(_ call: Call, _ level: RequiredLevel) -> Step {
        guard phase != .unregistered else {
            return level == .easyAccess ? .refuse(.notEnrolled) : perform(.authenticateStrongly, for: call)
        }
        switch level {
        case .easyAccess where !hasEasyAccess: return .refuse(.easyAccessDisabled)
        case .any where hasEasyAccess, .easyAccess: return perform(.authenticateEasily, for: call)
        case .any, .strong: return perform(.authenticateStrongly, for: call)
        }
    }

    /// Takes the answer to the action of the last step.
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
            if call == .enableEasyAccess || call == .changeEasyAccess { return perform(.registerEasyAccess, for: call) }
            return perform(phase == .unregistered ? .enrol : .openLevels, for: call)
        case .enrol, .registerEasyAccess: return end(in: .activeViaStrongAuth, easyAccess: true)
        case .openLevels: return end(in: .activeViaStrongAuth, easyAccess: hasEasyAccess)
        case .authenticateEasily: return end(in: .activeViaEasyAccess, easyAccess: true)
        case .verifyOffline: return end(in: .verifiedOffline, easyAccess: true)
        case .removeEasyAccess: return end(in: .enrolled, easyAccess: false)
        case .destroy: return end(in: .unregistered, easyAccess: false, call == .destroy ? .succeed : .fail)
        case .dropEasyAccess, .giveUpEasyAccess: return end(in: phase, easyAccess: false, .fail)
        case .purge: return end(in: .unregistered, easyAccess: false, .fail)
        }
    }

    private mutating func failed(_ action: Action, in call: Call, _ cause: Cause) -> Step {
        switch (action, cause) {
        case (.purge, _), (.destroy, .revocationPending):
            return end(in: .unregistered, easyAccess: false, .fail)
        case (_, .enrolmentRevoked) where phase != .unregistered: return perform(.purge, for: call)
        case (.authenticateEasily, .easyAccessRevoked): return perform(.dropEasyAccess, for: call)
        case (.authenticateEasily, .secretExhausted), (.verifyOffline, .secretExhausted):
            switch exhaustion {
            case .disableEasyAccess: return perform(.giveUpEasyAccess, for: call)
            case .destroyEnrolment: return perform(.destroy, for: call)
            case .wait: return end(.fail)
            }
        case (.authenticateEasily, .network)
        where allowsOffline && !isSuperseded && (phase == .enrolled || phase == .verifiedOffline):
            return perform(.verifyOffline, for: call)
        case (.verifyOffline, .verificationUnavailable) where phase == .verifiedOffline:
            return end(in: .enrolled, easyAccess: hasEasyAccess, .fail)
        case (.authenticateStrongly, .network) where phase == .verifiedOffline: return end(.refuse(.offline))
        default: return end(.fail)
        }
    }

    private mutating func perform(_ action: Action, for call: Call) -> Step {
        flow = (call, action, flow?.epoch ?? epoch)
        return .perform(action)
    }

    private mutating func end(_ step: Step) -> Step {
        flow = nil
        return step
    }

    private mutating func end(in phase: SessionPhase, easyAccess: Bool, _ step: Step = .succeed) -> Step {
        if isSuperseded, phase.isOpen {
            if flow?.action == .enrol { self.phase = .enrolled }
            hasEasyAccess = easyAccess && self.phase != .unregistered
            return end(.fail)
        }
        // Nothing but an enrolment leads out of having none.
        if self.phase != .unregistered || flow?.action == .enrol {
            self.phase = phase
            hasEasyAccess = easyAccess
        }
        return end(step)
    }

    /// Nobody has used the session for a while. A start that is under way goes on, as from `enrolled`; what needs the
    /// session that has ended does not.
    ///
    /// - Returns: Whether that ends anything.
    mutating func idle() -> Bool {
        guard phase.isOpen else { return false }
        phase = .enrolled
        epoch += 1
        if case .start = flow?.call { flow?.epoch = epoch }
        return true
    }

    /// Another program has changed what is stored.
    ///
    /// - Parameter isSame: Whether it is still the same enrolment; otherwise the session ends.
    mutating func reload(isEnrolled: Bool, isSame: Bool, hasEasyAccess: Bool) {
        self.hasEasyAccess = hasEasyAccess
        guard !isSame else { return }
        phase = isEnrolled ? .enrolled : .unregistered
        epoch += 1
    }

    // MARK: Background access

    /// How a request for background access ended. Nobody is asked for it, so it may run beside a call.
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
        /// Delete the enrolment, then say so with ``purged()``; the call ends with the error of the request.
        case purge
        /// The enrolment was destroyed meanwhile.
        case refuseNotEnrolled
        /// The session was ended meanwhile: the answer counts for nothing.
        case drop
    }

    /// - Parameter epoch: That of the session in which the request was begun.
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

    /// The enrolment was deleted outside of a call.
    mutating func purged() {
        phase = .unregistered
        hasEasyAccess = false
        epoch += 1
    }
}
