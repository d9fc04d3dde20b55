import Testing

@testable import LatchkeyLocker

/// The table of statuses and calls, every cell, without hardware, network or clock.
struct SessionMachineTests {
    private typealias Machine = SessionMachine
    private typealias Call = SessionMachine.Call
    private typealias Action = SessionMachine.Action

    /// One call: what is done for it, and how that ends.
    private struct Cell {
        let call: SessionMachine.Call
        /// The actions, each with what came of it.
        let actions: [(SessionMachine.Action, SessionMachine.Answer)]
        let end: SessionMachine.Step
        let phase: SessionPhase
        let hasEasyAccess: Bool

        init(
            _ call: SessionMachine.Call, _ actions: [(SessionMachine.Action, SessionMachine.Answer)],
            _ end: SessionMachine.Step, _ phase: SessionPhase, easyAccess: Bool
        ) {
            (self.call, self.actions, self.end, self.phase, hasEasyAccess) = (call, actions, end, phase, easyAccess)
        }
    }

    private func check(_ cells: [Cell], from phase: SessionPhase, easyAccess: Bool, allowsOffline: Bool = true) {
        for (index, cell) in cells.enumerated() {
            var machine = Machine(phase: phase, hasEasyAccess: easyAccess, allowsOffline: allowsOffline)
            var step = machine.begin(cell.call)
            for (action, answer) in cell.actions {
                #expect(step == .perform(action), "\(phase), \(easyAccess), \(index): \(cell.call)")
                #expect(machine.isInteracting)
                // Nothing else begins meanwhile, and nothing is changed by that.
                #expect(machine.begin(.start(.any)) == .refuse(.userInteractionInProgress))
                step = machine.receive(answer)
            }
            #expect(step == cell.end, "\(phase), \(easyAccess), \(index): \(cell.call)")
            #expect(machine.phase == cell.phase, "\(phase), \(easyAccess), \(index): \(cell.call)")
            #expect(machine.hasEasyAccess == cell.hasEasyAccess, "\(phase), \(easyAccess), \(index): \(cell.call)")
            #expect(!machine.isInteracting)
        }
    }

    private let strong: (Action, SessionMachine.Answer) = (.authenticateStrongly, .done)
    private func failed(_ action: Action, _ cause: Machine.Cause = .other) -> (Action, SessionMachine.Answer) {
        (action, .failed(cause))
    }

    @Test func `unregistered: a start enrols, and nothing else goes`() {
        check(
            [
                Cell(.start(.any), [strong, (.enrol, .done)], .succeed, .activeViaStrongAuth, easyAccess: true),
                Cell(.start(.strong), [strong, (.enrol, .done)], .succeed, .activeViaStrongAuth, easyAccess: true),
                Cell(.start(.easyAccess), [], .refuse(.notEnrolled), .unregistered, easyAccess: false),
                Cell(.start(.any), [failed(.authenticateStrongly)], .fail, .unregistered, easyAccess: false),
                Cell(.start(.any), [failed(.authenticateStrongly, .network)], .fail, .unregistered, easyAccess: false),
                Cell(.start(.any), [strong, failed(.enrol)], .fail, .unregistered, easyAccess: false),
                Cell(
                    .start(.any), [strong, failed(.enrol, .enrolmentRevoked)], .fail, .unregistered, easyAccess: false),
            ]
                + [Call.lock, .destroy, .enableEasyAccess, .disableEasyAccess, .changeEasyAccess].map {
                    Cell($0, [], .refuse(.notEnrolled), .unregistered, easyAccess: false)
                }, from: .unregistered, easyAccess: false)
    }

    @Test func `enrolled: a start is easy, or strong where it must be`() {
        let easy: (Action, SessionMachine.Answer) = (.authenticateEasily, .done)
        check(
            [
                Cell(.start(.any), [easy], .succeed, .activeViaEasyAccess, easyAccess: true),
                Cell(.start(.easyAccess), [easy], .succeed, .activeViaEasyAccess, easyAccess: true),
                Cell(
                    .start(.strong), [strong, (.openLevels, .done)], .succeed, .activeViaStrongAuth, easyAccess: true),
                Cell(.start(.any), [failed(.authenticateEasily)], .fail, .enrolled, easyAccess: true),
                Cell(
                    .start(.any), [failed(.authenticateEasily, .network), (.verifyOffline, .done)], .succeed,
                    .verifiedOffline, easyAccess: true),
                Cell(
                    .start(.easyAccess), [failed(.authenticateEasily, .network), (.verifyOffline, .done)], .succeed,
                    .verifiedOffline, easyAccess: true),
                Cell(
                    .start(.any), [failed(.authenticateEasily, .network), failed(.verifyOffline)], .fail, .enrolled,
                    easyAccess: true),
                Cell(.start(.strong), [failed(.authenticateStrongly, .network)], .fail, .enrolled, easyAccess: true),
                Cell(.start(.strong), [strong, failed(.openLevels)], .fail, .enrolled, easyAccess: true),
                Cell(.lock, [(.lock, .done)], .succeed, .enrolled, easyAccess: true),
                Cell(.destroy, [(.destroy, .done)], .succeed, .unregistered, easyAccess: false),
                Cell(.destroy, [failed(.destroy, .revocationPending)], .fail, .unregistered, easyAccess: false),
                Cell(.destroy, [failed(.destroy)], .fail, .enrolled, easyAccess: true),
                Cell(.enableEasyAccess, [], .refuse(.notActive), .enrolled, easyAccess: true),
                Cell(.disableEasyAccess, [], .refuse(.notActive), .enrolled, easyAccess: true),
                Cell(.changeEasyAccess, [], .refuse(.notActive), .enrolled, easyAccess: true),
            ], from: .enrolled, easyAccess: true)
        check(
            [
                Cell(.start(.any), [strong, (.openLevels, .done)], .succeed, .activeViaStrongAuth, easyAccess: false),
                Cell(
                    .start(.strong), [strong, (.openLevels, .done)], .succeed, .activeViaStrongAuth, easyAccess: false),
                Cell(.start(.easyAccess), [], .refuse(.easyAccessDisabled), .enrolled, easyAccess: false),
                Cell(.start(.any), [failed(.authenticateStrongly, .network)], .fail, .enrolled, easyAccess: false),
                Cell(.lock, [(.lock, .done)], .succeed, .enrolled, easyAccess: false),
                Cell(.destroy, [(.destroy, .done)], .succeed, .unregistered, easyAccess: false),
                Cell(.enableEasyAccess, [], .refuse(.notActive), .enrolled, easyAccess: false),
            ], from: .enrolled, easyAccess: false)
        // Where it is not allowed, nobody is recognised without a network.
        check(
            [Cell(.start(.any), [failed(.authenticateEasily, .network)], .fail, .enrolled, easyAccess: true)],
            from: .enrolled, easyAccess: true, allowsOffline: false)
    }

    @Test(arguments: [SessionPhase.activeViaStrongAuth, .activeViaEasyAccess])
    func `active: a start renews, and a failure keeps what there is`(phase: SessionPhase) {
        check(
            [
                Cell(
                    .start(.any), [(.authenticateEasily, .done)], .succeed, .activeViaEasyAccess, easyAccess: true),
                Cell(.start(.any), [failed(.authenticateEasily)], .fail, phase, easyAccess: true),
                Cell(.start(.any), [failed(.authenticateEasily, .network)], .fail, phase, easyAccess: true),
                Cell(
                    .start(.strong), [strong, (.openLevels, .done)], .succeed, .activeViaStrongAuth, easyAccess: true),
                Cell(.start(.strong), [failed(.authenticateStrongly)], .fail, phase, easyAccess: true),
                Cell(.lock, [(.lock, .done)], .succeed, .enrolled, easyAccess: true),
                Cell(.destroy, [(.destroy, .done)], .succeed, .unregistered, easyAccess: false),
                Cell(.disableEasyAccess, [(.removeEasyAccess, .done)], .succeed, .enrolled, easyAccess: false),
                Cell(.disableEasyAccess, [failed(.removeEasyAccess, .network)], .fail, phase, easyAccess: true),
                Cell(.enableEasyAccess, [], .refuse(.easyAccessEnabled), phase, easyAccess: true),
                Cell(
                    .changeEasyAccess, [strong, (.registerEasyAccess, .done)], .succeed, .activeViaStrongAuth,
                    easyAccess: true),
                Cell(.changeEasyAccess, [failed(.authenticateStrongly)], .fail, phase, easyAccess: true),
                Cell(.changeEasyAccess, [strong, failed(.registerEasyAccess)], .fail, phase, easyAccess: true),
            ], from: phase, easyAccess: true)
        check(
            [
                Cell(.start(.any), [strong, (.openLevels, .done)], .succeed, .activeViaStrongAuth, easyAccess: false),
                Cell(.disableEasyAccess, [], .refuse(.easyAccessDisabled), phase, easyAccess: false),
                Cell(.changeEasyAccess, [], .refuse(.easyAccessDisabled), phase, easyAccess: false),
                Cell(
                    .enableEasyAccess, [strong, (.registerEasyAccess, .done)], .succeed, .activeViaStrongAuth,
                    easyAccess: true),
                Cell(.enableEasyAccess, [strong, failed(.registerEasyAccess)], .fail, phase, easyAccess: false),
            ], from: phase, easyAccess: false)
    }

    @Test(arguments: SessionPhase.allCases, [true, false])
    func `a fresh login spares another where easy access is enabled, and nothing else`(
        phase: SessionPhase, easyAccess: Bool
    ) {
        guard phase != .unregistered || !easyAccess else { return }
        let calls: [Call] = [
            .start(.any), .start(.easyAccess), .start(.strong), .lock, .destroy, .enableEasyAccess, .disableEasyAccess,
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

    @Test func `background access: a start goes on to an active session, and offline is no way`() {
        check(
            [
                Cell(.start(.any), [(.authenticateEasily, .done)], .succeed, .activeViaEasyAccess, easyAccess: true),
                Cell(
                    .start(.any), [failed(.authenticateEasily, .network)], .fail, .backgroundAccess, easyAccess: true),
                Cell(
                    .start(.strong), [strong, (.openLevels, .done)], .succeed, .activeViaStrongAuth, easyAccess: true),
                Cell(.lock, [(.lock, .done)], .succeed, .enrolled, easyAccess: true),
                Cell(.destroy, [(.destroy, .done)], .succeed, .unregistered, easyAccess: false),
                Cell(.disableEasyAccess, [], .refuse(.notActive), .backgroundAccess, easyAccess: true),
                Cell(.changeEasyAccess, [], .refuse(.notActive), .backgroundAccess, easyAccess: true),
                Cell(.enableEasyAccess, [], .refuse(.notActive), .backgroundAccess, easyAccess: true),
            ], from: .backgroundAccess, easyAccess: true)
    }

    @Test func `verified offline: it stays without a network, and goes on with one`() {
        check(
            [
                Cell(.start(.any), [(.authenticateEasily, .done)], .succeed, .activeViaEasyAccess, easyAccess: true),
                Cell(
                    .start(.any), [failed(.authenticateEasily, .network)], .succeed, .verifiedOffline, easyAccess: true),
                Cell(.start(.any), [failed(.authenticateEasily)], .fail, .verifiedOffline, easyAccess: true),
                Cell(
                    .start(.strong), [failed(.authenticateStrongly, .network)], .refuse(.offline), .verifiedOffline,
                    easyAccess: true),
                Cell(
                    .start(.strong), [strong, (.openLevels, .done)], .succeed, .activeViaStrongAuth, easyAccess: true),
                Cell(.lock, [(.lock, .done)], .succeed, .enrolled, easyAccess: true),
                Cell(
                    .destroy, [failed(.destroy, .revocationPending)], .fail, .unregistered, easyAccess: false),
                Cell(.disableEasyAccess, [], .refuse(.notActive), .verifiedOffline, easyAccess: true),
                Cell(.changeEasyAccess, [], .refuse(.notActive), .verifiedOffline, easyAccess: true),
                Cell(.enableEasyAccess, [], .refuse(.notActive), .verifiedOffline, easyAccess: true),
            ], from: .verifiedOffline, easyAccess: true)
    }

    @Test(arguments: SessionPhase.allCases.filter { $0 != .unregistered })
    func `what the server or the hardware has given up is given up here`(phase: SessionPhase) {
        check(
            [
                Cell(
                    .start(.any), [failed(.authenticateEasily, .enrolmentRevoked), (.purge, .done)], .fail,
                    .unregistered, easyAccess: false),
                Cell(
                    .start(.strong), [strong, failed(.openLevels, .enrolmentRevoked), failed(.purge)], .fail,
                    .unregistered, easyAccess: false),
                Cell(
                    .start(.any), [failed(.authenticateEasily, .easyAccessRevoked), (.dropEasyAccess, .done)], .fail,
                    phase, easyAccess: false),
                Cell(
                    .start(.any), [failed(.authenticateEasily, .secretExhausted), (.dropEasyAccess, .done)], .fail,
                    phase, easyAccess: false),
            ], from: phase, easyAccess: true)
    }

    @Test func `an exhausted secret goes offline too`() {
        check(
            [
                Cell(
                    .start(.any),
                    [
                        failed(.authenticateEasily, .network), failed(.verifyOffline, .secretExhausted),
                        (.dropEasyAccess, .done),
                    ], .fail, .enrolled, easyAccess: false)
            ], from: .enrolled, easyAccess: true)
    }

    @Test(arguments: SessionPhase.allCases)
    func `background access weakens no session`(phase: SessionPhase) {
        func after(_ answer: SessionMachine.BackgroundAnswer) -> (SessionMachine.BackgroundStep, SessionPhase) {
            var machine = Machine(phase: phase, hasEasyAccess: true, allowsOffline: true)
            return (machine.receive(answer), machine.phase)
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

    @Test func `each status opens what the table says`() {
        #expect(SessionPhase.unregistered.openLevels == [])
        #expect(SessionPhase.enrolled.openLevels == [.base])
        #expect(SessionPhase.backgroundAccess.openLevels == [.base, .background])
        #expect(SessionPhase.verifiedOffline.openLevels == [.base, .offline])
        #expect(SessionPhase.activeViaEasyAccess.openLevels == [.base, .background, .offline, .active])
        #expect(SessionPhase.activeViaStrongAuth.openLevels == [.base, .background, .offline, .active])
    }
}
