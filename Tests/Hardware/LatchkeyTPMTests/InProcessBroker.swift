import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTesting
import Synchronization
import TPM2
import Testing

/// The presence broker's key and terms in this process, with a finger that does as the script says.
final class InProcessBroker: ApprovalService {
    enum Finger: Sendable {
        case matches
        case differs
        case stays
        /// Another program's user.
        case approvesFor(UInt32)
    }

    private struct State {
        var fingers: ArraySlice<Finger>
        var set: Data
        var requests: [ApprovalRequest] = []
        var fingerState = FingerState.ready
    }

    let authority: ApprovalAuthority
    let user: UInt32 = 1000
    private let state: Mutex<State>

    init(_ authority: ApprovalAuthority, _ fingers: [Finger]) {
        self.authority = authority
        state = Mutex(State(fingers: fingers[...], set: Data(repeating: 1, count: 32)))
    }

    var requests: [ApprovalRequest] { state.withLock { $0.requests } }

    /// Another finger is enrolled.
    func enrol(_ mark: UInt8) { state.withLock { $0.set = Data(repeating: mark, count: 32) } }
    func show(_ fingers: Finger...) { state.withLock { $0.fingers += fingers } }

    /// Whether fingers can be read.
    var fingers: FingerState {
        get { state.withLock { $0.fingerState } }
        set { state.withLock { $0.fingerState = newValue } }
    }

    func fingerState() async -> FingerState { fingers }

    func terms(for policy: AccessPolicy) async throws(KeystoreError) -> PresenceTerms {
        try await authority.terms(for: user, policy, enrolmentSet: state.withLock { $0.set })
    }

    func approve(_ request: ApprovalRequest) async throws(KeystoreError) -> ApprovalAnswer {
        let (finger, set) = state.withLock { state in
            state.requests.append(request)
            return (state.fingers.popFirst() ?? .stays, state.set)
        }
        switch finger {
        case .matches:
            let approval = try await authority.approve(
                request, for: user, enrolmentSet: set, elapsed: .zero)
            if policyHasPIN(request) { try? await authority.resetPIN(of: user) }
            return .approved(approval)
        case .approvesFor(let other):
            return .approved(
                try await authority.approve(request, for: other, enrolmentSet: set, elapsed: .zero))
        case .differs: return .notRecognised
        case .stays:
            while !Task.isCancelled { try? await Task.sleep(for: .seconds(3600)) }
            return .declined("the prompt was withdrawn")
        }
    }

    func complete(
        _ ticket: Data, _ use: ApprovalRequest.Use
    ) async throws(KeystoreError) -> PresenceApproval {
        try await authority.complete(ticket, use, for: user)
    }

    func makeUserPIN() async throws(KeystoreError) -> UnsetUserPIN {
        try await authority.makePIN(for: user)
    }

    private func policyHasPIN(_ request: ApprovalRequest) -> Bool {
        request.policy.requirement == .userPresence
    }
}

extension Scene {
    /// A keystore and a broker on the test's TPM.
    static func withBroker(
        _ fingers: InProcessBroker.Finger...,
        body: (Wire, TPMKeystore, InProcessBroker) async throws -> Void
    ) async throws {
        let tpm = try SoftwareTPM.current
        try await TemporaryDirectory.withDirectory { directory in
            let broker = InProcessBroker(
                try await ApprovalAuthority(tcti: tpm.tcti, directory: directory.path), fingers)
            let wire = Wire()
            try await body(wire, wire.keystore(tpm), broker)
            try expectNothingLoaded("after the test")
        }
    }
}
