import Testing

@testable import LatchkeyLocker

/// The table of statuses and calls, each cell, without hardware, network or clock.
struct SessionMachineTests {
    private typealias Machine = SessionMachine
    private typealias Call = SessionMachine.Call
    private typealias Action = SessionMachine.Action

    /// One call: its actions, and how it ends.
    private struct Cell {
        let call: SessionMachine.Call
        /// The actions, each with its result.
        let actions: [(SessionMachine.Action, SessionMachine.Answer)]
        let end: SessionMachine.Step
        let phase: SessionPhase
        let hasEasyAccess: Bool

        init(
            _ call: SessionMachine.Call,
            _ actions: [(SessionMachine.Action, SessionMachine.Answer)],
            _ end: SessionMachine.Step, _ phase: SessionPhase, easyAccess: Bool
        ) {
            (self.call, self.actions, self.end, self.phase, hasEasyAccess) = (
                call, actions, end, phase, easyAccess
            )
        }
    }

    private func check(
        _ cells: [Cell], from phase: SessionPhase, easyAccess: Bool, allowsOffline: Bool = true
    ) {
        for (index, cell) in cells.enumerated() {
            var machine = Machine(
                phase: phase, hasEasyAccess: easyAccess, allowsOffline: allowsOffline)
            var step = machine.begin(cell.call)
            for (action, answer) in cell.actions {
                #expect(step == .perform(action), "\(phase), \(easyAccess), \(index): \(cell.call)")
                #expect(machine.isInteracting)
                // During a call no other call begins, and the refused call changes nothing.
                #expect(machine.begin(.start(.any)) == .refuse(.userInteractionInProgress))
                step = machine.receive(answer)
            }
            #expect(step == cell.end, "\(phase), \(easyAccess), \(index): \(cell.call)")
            #expect(machine.phase == cell.phase, "\(phase), \(easyAccess), \(index): \(cell.call)")
            #expect(
                machine.hasEasyAccess == cell.hasEasyAccess,
                "\(phase), \(easyAccess), \(index): \(cell.call)")
            #expect(!machine.isInteracting)
        }
    }

    private let strong: (Action, SessionMachine.Answer) = (.authenticateStrongly, .done)
    private func failed(_ action: Action, _ cause: Machine.Cause = .other) -> (
        Action, SessionMachine.Answer
    ) {
        (action, .failed(cause))
    }

    @Test func `unregistered: a start enrols, and every other call is refused`() {
        check(
            [
                Cell(
                    .start(.any), [strong, (.enrol, .done)], .succeed, .activeViaStrongAuth,
                    easyAccess: true),
                Cell(
                    .start(.strong), [strong, (.enrol, .done)], .succeed, .activeViaStrongAuth,
                    easyAccess: true),
                Cell(
                    .start(.easyAccess), [], .refuse(.notEnrolled), .unregistered, easyAccess: false
                ),
                Cell(
                    .start(.any), [failed(.authenticateStrongly)], .fail, .unregistered,
                    easyAccess: false),
                Cell(
                    .start(.any), [failed(.authenticateStrongly, .network)], .fail, .unregistered,
                    easyAccess: false),
                Cell(
                    .start(.any), [strong, failed(.enrol)], .fail, .unregistered, easyAccess: false),
                Cell(
                    .start(.any), [strong, failed(.enrol, .enrolmentRevoked)], .fail, .unregistered,
                    easyAccess: false),
            ]
                + [Call.lock, .destroy, .enableEasyAccess, .disableEasyAccess, .changeEasyAccess]
                .map {
                    Cell($0, [], .refuse(.notEnrolled), .unregistered, easyAccess: false)
                }, from: .unregistered, easyAccess: false)
    }

    @Test func `enrolled: a start uses easy access if it is enabled`() {
        let easy: (Action, SessionMachine.Answer) = (.authenticateEasily, .done)
        check(
            [
                Cell(.start(.any), [easy], .succeed, .activeViaEasyAccess, easyAccess: true),
                Cell(.start(.easyAccess), [easy], .succeed, .activeViaEasyAccess, easyAccess: true),
                Cell(
                    .start(.strong), [strong, (.openLevels, .done)], .succeed, .activeViaStrongAuth,
                    easyAccess: true),
                Cell(
                    .start(.any), [failed(.authenticateEasily)], .fail, .enrolled, easyAccess: true),
                Cell(
                    .start(.any), [failed(.authenticateEasily, .network), (.verifyOffline, .done)],
                    .succeed,
                    .verifiedOffline, easyAccess: true),
                Cell(
                    .start(.easyAccess),
                    [failed(.authenticateEasily, .network), (.verifyOffline, .done)], .succeed,
                    .verifiedOffline, easyAccess: true),
                Cell(
                    .start(.any), [failed(.authenticateEasily, .network), failed(.verifyOffline)],
                    .fail, .enrolled,
                    easyAccess: true),
                Cell(
                    .start(.strong), [failed(.authenticateStrongly, .network)], .fail, .enrolled,
                    easyAccess: true),
                Cell(
                    .start(.strong), [strong, failed(.openLevels)], .fail, .enrolled,
                    easyAccess: true),
                Cell(.lock, [], .succeed, .enrolled, easyAccess: true),
                Cell(.destroy, [(.destroy, .done)], .succeed, .unregistered, easyAccess: false),
                Cell(
                    .destroy, [failed(.destroy, .revocationPending)], .fail, .unregistered,
                    easyAccess: false),
                Cell(.destroy, [failed(.destroy)], .fail, .enrolled, easyAccess: true),
                Cell(.enableEasyAccess, [], .refuse(.notActive), .enrolled, easyAccess: true),
                Cell(.disableEasyAccess, [], .refuse(.notActive), .enrolled, easyAccess: true),
                Cell(.changeEasyAccess, [], .refuse(.notActive), .enrolled, easyAccess: true),
            ], from: .enrolled, easyAccess: true)
        check(
            [
                Cell(
                    .start(.any), [strong, (.openLevels, .done)], .succeed, .activeViaStrongAuth,
                    easyAccess: false),
                Cell(
                    .start(.strong), [strong, (.openLevels, .done)], .succeed, .activeViaStrongAuth,
                    easyAccess: false),
                Cell(
                    .start(.easyAccess), [], .refuse(.easyAccessDisabled), .enrolled,
                    easyAccess: false),
                Cell(
                    .start(.any), [failed(.authenticateStrongly, .network)], .fail, .enrolled,
                    easyAccess: false),
                Cell(.lock, [], .succeed, .enrolled, easyAccess: false),
                Cell(.destroy, [(.destroy, .done)], .succeed, .unregistered, easyAccess: false),
                Cell(.enableEasyAccess, [], .refuse(.notActive), .enrolled, easyAccess: false),
            ], from: .enrolled, easyAccess: false)
        // Without permission in the configuration there is no offline verification.
        check(
            [
                Cell(
                    .start(.any), [failed(.authenticateEasily, .network)], .fail, .enrolled,
                    easyAccess: true)
            ],
            from: .enrolled, easyAccess: true, allowsOffline: false)
    }

    @Test(arguments: [SessionPhase.activeViaStrongAuth, .activeViaEasyAccess])
    func `active: a start renews the token, and a failure keeps the session`(phase: SessionPhase) {
        check(
            [
                Cell(
                    .start(.any), [(.authenticateEasily, .done)], .succeed, .activeViaEasyAccess,
                    easyAccess: true),
                Cell(.start(.any), [failed(.authenticateEasily)], .fail, phase, easyAccess: true),
                Cell(
                    .start(.any), [failed(.authenticateEasily, .network)], .fail, phase,
                    easyAccess: true),
                Cell(
                    .start(.strong), [strong, (.openLevels, .done)], .succeed, .activeViaStrongAuth,
                    easyAccess: true),
                Cell(
                    .start(.strong), [failed(.authenticateStrongly)], .fail, phase, easyAccess: true
                ),
                Cell(.lock, [], .succeed, .enrolled, easyAccess: true),
                Cell(.destroy, [(.destroy, .done)], .succeed, .unregistered, easyAccess: false),
                Cell(
                    .disableEasyAccess, [(.removeEasyAccess, .done)], .succeed, .enrolled,
                    easyAccess: false),
                Cell(
                    .disableEasyAccess, [failed(.removeEasyAccess, .network)], .fail, phase,
                    easyAccess: true),
                Cell(.enableEasyAccess, [], .refuse(.easyAccessEnabled), phase, easyAccess: true),
                Cell(
                    .changeEasyAccess, [strong, (.registerEasyAccess, .done)], .succeed,
                    .activeViaStrongAuth,
                    easyAccess: true),
                Cell(
                    .changeEasyAccess, [failed(.authenticateStrongly)], .fail, phase,
                    easyAccess: true),
                Cell(
                    .changeEasyAccess, [strong, failed(.registerEasyAccess)], .fail, phase,
                    easyAccess: true),
            ], from: phase, easyAccess: true)
        check(
            [
                Cell(
                    .start(.any), [strong, (.openLevels, .done)], .succeed, .activeViaStrongAuth,
                    easyAccess: false),
                Cell(
                    .disableEasyAccess, [], .refuse(.easyAccessDisabled), phase, easyAccess: false),
                Cell(.changeEasyAccess, [], .refuse(.easyAccessDisabled), phase, easyAccess: false),
                Cell(
                    .enableEasyAccess, [strong, (.registerEasyAccess, .done)], .succeed,
                    .activeViaStrongAuth,
                    easyAccess: true),
                Cell(
                    .enableEasyAccess, [strong, failed(.registerEasyAccess)], .fail, phase,
                    easyAccess: false),
            ], from: phase, easyAccess: false)
    }

    @Test(arguments: SessionPhase.allCases, [true, false])
    func `only enabling easy access accepts a recent login`(
        phase: SessionPhase, easyAccess: Bool
    ) {
        guard phase != .unregistered || !easyAccess else { return }
        let calls: [Call] = [
            .start(.any), .start(.easyAccess), .start(.strong), .lock, .destroy, .enableEasyAccess,
            .disableEasyAccess,
            .changeEasyAccess,
        ]
        for call in calls {
            var (fresh, other) = (
                Machine(phase: phase, hasEasyAccess: easyAccess, allowsOffline: true),
                Machine(phase: phase, hasEasyAccess: easyAccess, allowsOffline: true)
            )
            let step = fresh.begin(call, hasFreshLogin: true)
            guard call == .enableEasyAccess, phase.isActive, !easyAccess else {
                #expect(step == other.begin(call), "\(call)")
                continue
            }
            #expect(step == .perform(.registerEasyAccess))
            #expect(fresh.receive(.done) == .succeed)
            #expect(fresh.phase == .activeViaStrongAuth && fresh.hasEasyAccess)
        }
    }

    @Test
    func `background access: a start leads to an active session, or to offline verification`() {
        check(
            [
                Cell(
                    .start(.any), [(.authenticateEasily, .done)], .succeed, .activeViaEasyAccess,
                    easyAccess: true),
                Cell(
                    .start(.any), [failed(.authenticateEasily, .network), (.verifyOffline, .done)],
                    .succeed, .verifiedOffline, easyAccess: true),
                Cell(
                    .start(.any),
                    [
                        failed(.authenticateEasily, .network),
                        failed(.verifyOffline, .verificationUnavailable),
                    ], .fail, .backgroundAccess, easyAccess: true),
                Cell(
                    .start(.strong), [strong, (.openLevels, .done)], .succeed, .activeViaStrongAuth,
                    easyAccess: true),
                Cell(.lock, [], .succeed, .enrolled, easyAccess: true),
                Cell(.destroy, [(.destroy, .done)], .succeed, .unregistered, easyAccess: false),
                Cell(
                    .disableEasyAccess, [], .refuse(.notActive), .backgroundAccess, easyAccess: true
                ),
                Cell(
                    .changeEasyAccess, [], .refuse(.notActive), .backgroundAccess, easyAccess: true),
                Cell(
                    .enableEasyAccess, [], .refuse(.notActive), .backgroundAccess, easyAccess: true),
            ], from: .backgroundAccess, easyAccess: true)
    }

    @Test func `verified offline: it stays without a network, and a start with one is active`() {
        check(
            [
                Cell(
                    .start(.any), [(.authenticateEasily, .done)], .succeed, .activeViaEasyAccess,
                    easyAccess: true),
                Cell(
                    .start(.any), [failed(.authenticateEasily, .network), (.verifyOffline, .done)],
                    .succeed,
                    .verifiedOffline, easyAccess: true),
                Cell(
                    .start(.any), [failed(.authenticateEasily, .network), failed(.verifyOffline)],
                    .fail,
                    .verifiedOffline, easyAccess: true),
                Cell(
                    .start(.any),
                    [
                        failed(.authenticateEasily, .network),
                        failed(.verifyOffline, .verificationUnavailable),
                    ], .fail,
                    .enrolled, easyAccess: true),
                Cell(
                    .start(.any), [failed(.authenticateEasily)], .fail, .verifiedOffline,
                    easyAccess: true),
                Cell(
                    .start(.strong), [failed(.authenticateStrongly, .network)], .refuse(.offline),
                    .verifiedOffline,
                    easyAccess: true),
                Cell(
                    .start(.strong), [strong, (.openLevels, .done)], .succeed, .activeViaStrongAuth,
                    easyAccess: true),
                Cell(.lock, [], .succeed, .enrolled, easyAccess: true),
                Cell(
                    .destroy, [failed(.destroy, .revocationPending)], .fail, .unregistered,
                    easyAccess: false),
                Cell(
                    .disableEasyAccess, [], .refuse(.notActive), .verifiedOffline, easyAccess: true),
                Cell(
                    .changeEasyAccess, [], .refuse(.notActive), .verifiedOffline, easyAccess: true),
                Cell(
                    .enableEasyAccess, [], .refuse(.notActive), .verifiedOffline, easyAccess: true),
            ], from: .verifiedOffline, easyAccess: true)
    }

    @Test(arguments: SessionPhase.allCases.filter { $0 != .unregistered })
    func `a revocation by the server or the hardware is applied here`(phase: SessionPhase) {
        check(
            [
                Cell(
                    .start(.any),
                    [failed(.authenticateEasily, .enrolmentRevoked), (.purge, .done)], .fail,
                    .unregistered, easyAccess: false),
                Cell(
                    .start(.strong),
                    [strong, failed(.openLevels, .enrolmentRevoked), failed(.purge)], .fail,
                    .unregistered, easyAccess: false),
                Cell(
                    .start(.any),
                    [
                        failed(.authenticateEasily, .easyAccessRevoked),
                        (.deleteLocalEasyAccess, .done),
                    ],
                    .fail,
                    phase, easyAccess: false),
                Cell(
                    .start(.any),
                    [
                        failed(.authenticateEasily, .secretExhausted),
                        (.deleteBlockedEasyAccess, .done),
                    ],
                    .fail,
                    phase, easyAccess: false),
            ], from: phase, easyAccess: true)
    }

    @Test func `a secret can be exhausted offline too`() {
        check(
            [
                Cell(
                    .start(.any),
                    [
                        failed(.authenticateEasily, .network),
                        failed(.verifyOffline, .secretExhausted),
                        (.deleteBlockedEasyAccess, .done),
                    ], .fail, .enrolled, easyAccess: false)
            ], from: .enrolled, easyAccess: true)
    }

    @Test(arguments: SessionPhase.allCases)
    func `background access does not change an active session`(phase: SessionPhase) {
        func after(_ answer: SessionMachine.BackgroundAnswer) -> (
            SessionMachine.BackgroundStep, SessionPhase
        ) {
            var machine = Machine(phase: phase, hasEasyAccess: true, allowsOffline: true)
            return (machine.receive(answer, of: machine.epoch), machine.phase)
        }
        guard phase != .unregistered else {
            #expect(after(.granted) == (.refuseNotEnrolled, .unregistered))
            #expect(after(.failed) == (.refuseNotEnrolled, .unregistered))
            return
        }
        #expect(after(.granted) == (.succeed, phase.isActive ? phase : .backgroundAccess))
        #expect(after(.failed) == (.fail, phase))
        #expect(after(.deviceKeyUnusable) == (.fail, phase.isActive ? phase : .enrolled))
        #expect(after(.enrolmentRevoked).0 == .purge)
    }

    // MARK: The end of a session

    private let opening: [(call: Call, actions: [Action], easyAccess: Bool)] = [
        (.start(.any), [.authenticateEasily], true),
        (.start(.strong), [.authenticateStrongly, .openLevels], true),
        (.changeEasyAccess, [.authenticateStrongly, .registerEasyAccess], true),
        (.enableEasyAccess, [.authenticateStrongly, .registerEasyAccess], false),
    ]

    @Test func `a lock does not wait, and earlier calls open nothing`() {
        for (call, actions, easyAccess) in opening {
            for done in actions.indices {
                var machine = Machine(
                    phase: .activeViaStrongAuth, hasEasyAccess: easyAccess, allowsOffline: true)
                _ = machine.begin(call)
                for _ in 0..<done { _ = machine.receive(.done) }
                #expect(machine.begin(.lock) == .succeed)
                #expect(machine.phase == .enrolled && machine.isSuperseded)
                #expect(machine.receive(.done) == .fail, "\(call) \(done)")
                #expect(machine.phase == .enrolled && !machine.isInteracting)
            }
        }
    }

    @Test func `a lock during an enrolment keeps the stored enrolment, locked`() {
        var machine = Machine(phase: .unregistered, hasEasyAccess: false, allowsOffline: true)
        _ = machine.begin(.start(.any))
        #expect(machine.receive(.done) == .perform(.enrol))
        #expect(machine.begin(.lock) == .refuse(.notEnrolled))
        #expect(machine.receive(.done) == .fail)
        #expect(machine.phase == .enrolled && machine.hasEasyAccess)
    }

    @Test func `after a lock there is no offline prompt`() {
        var machine = Machine(phase: .enrolled, hasEasyAccess: true, allowsOffline: true)
        _ = machine.begin(.start(.any))
        _ = machine.begin(.lock)
        #expect(machine.receive(.failed(.network)) == .fail)
    }

    @Test func `a lock does not delay a destruction`() {
        var machine = Machine(phase: .activeViaStrongAuth, hasEasyAccess: true, allowsOffline: true)
        #expect(machine.begin(.destroy) == .perform(.destroy))
        #expect(!machine.mayPrompt)
        #expect(machine.begin(.lock) == .succeed)
        #expect(machine.receive(.done) == .succeed)
        #expect(machine.phase == .unregistered)
    }

    @Test func `a call does not restore an enrolment that was deleted during it`() {
        for (call, actions, easyAccess) in opening + [
            (.disableEasyAccess, [.removeEasyAccess], true)
        ] {
            var machine = Machine(
                phase: .activeViaStrongAuth, hasEasyAccess: easyAccess, allowsOffline: true)
            _ = machine.begin(call)
            for _ in 1..<actions.count { _ = machine.receive(.done) }
            #expect(machine.receive(.enrolmentRevoked, of: machine.epoch) == .purge)
            machine.enrolmentWasDeleted()
            _ = machine.receive(.done)
            #expect(machine.phase == .unregistered && !machine.hasEasyAccess, "\(call)")
        }
    }

    @Test func `idling ends a session during a prompt, and a start continues as from enrolled`() {
        for (call, actions, easyAccess) in opening {
            var machine = Machine(
                phase: .activeViaEasyAccess, hasEasyAccess: easyAccess, allowsOffline: true)
            _ = machine.begin(call)
            for _ in 1..<actions.count { _ = machine.receive(.done) }
            let (first, second) = (machine.idle(), machine.idle())
            #expect(first && !second)
            #expect(machine.phase == .enrolled)
            let isStart = if case .start = call { true } else { false }
            #expect(machine.receive(.done) == (isStart ? .succeed : .fail), "\(call)")
            #expect(machine.phase.isActive == isStart, "\(call)")
        }
    }

    @Test(arguments: [
        SessionMachine.BackgroundAnswer.granted, .enrolmentRevoked, .deviceKeyUnusable, .failed,
    ])
    func `background access of an ended session is discarded`(
        answer: SessionMachine.BackgroundAnswer
    ) {
        for end in ["lock", "idle", "destroy", "elsewhere"] {
            var machine = Machine(
                phase: .activeViaEasyAccess, hasEasyAccess: true, allowsOffline: true)
            let epoch = machine.epoch
            switch end {
            case "lock": _ = machine.begin(.lock)
            case "idle": _ = machine.idle()
            case "destroy": _ = machine.begin(.destroy)
            default: machine.reload(isEnrolled: true, isSame: false, hasEasyAccess: true)
            }
            let phase = machine.phase
            #expect(machine.receive(answer, of: epoch) == .drop)
            #expect(machine.phase == phase)
        }
    }
}
