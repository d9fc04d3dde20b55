import FoundationEssentials
import Latchkey
import LatchkeyTPM

/// A presence broker whose finger always matches, or whose reader is in the state that the test
/// says.
struct SteadyBroker: ApprovalService {
    private static let user: UInt32 = 1000

    let authority: ApprovalAuthority
    var state = FingerState.ready

    func fingerState() async -> FingerState { state }

    func terms(for policy: AccessPolicy) async throws(KeystoreError) -> PresenceTerms {
        try await authority.terms(
            for: Self.user, policy, enrolmentSet: Data(repeating: 7, count: 32))
    }

    func approve(_ request: ApprovalRequest) async throws(KeystoreError) -> ApprovalAnswer {
        .approved(
            try await authority.approve(
                request, for: Self.user, enrolmentSet: Data(repeating: 7, count: 32), elapsed: .zero
            ))
    }

    func makeUserPIN() async throws(KeystoreError) -> UnsetUserPIN {
        try await authority.makePIN(for: Self.user)
    }
}
