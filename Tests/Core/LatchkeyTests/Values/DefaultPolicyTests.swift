import FoundationEssentials
import Latchkey
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// The default policy of all facades: fingerprint or PIN where a finger can be checked now,
/// otherwise the PIN, and never a policy that the hardware can't enforce.
struct DefaultPolicyTests {
    private static let all = Set(AccessPolicy.Requirement.allCases)

    @Test(
        arguments: [
            (nil, AccessPolicy.pin), (.ready, .userPresence), (.notEnrolled, .pin),
            (.notAvailable("there is no fingerprint reader"), .pin), (.lockedOut(until: nil), .pin),
        ] as [(FingerState?, AccessPolicy)])
    func `on a TPM the policy depends on the reader's state`(
        _ state: FingerState?, _ expected: AccessPolicy
    ) async {
        let presence = presence(state)
        for use in [KeystoreCapabilities.Use.signing, .sealing, .signingAndSealing] {
            #expect(
                await capabilities(Self.all).preferredPolicy(for: use, through: presence)
                    == expected)
        }
    }

    @Test func `a user who prefers the PIN gets it`() async {
        let presence = presence(.ready, preferring: .pin)
        #expect(
            await capabilities(Self.all).preferredPolicy(for: .sealing, through: presence) == .pin)
    }

    @Test func `a token with a PIN gets the PIN, also next to a machine's reader`() async {
        let token = capabilities([.none, .pin])
        #expect(await token.preferredPolicy(for: .sealing, through: presence(.ready)) == .pin)
        #expect(await token.preferredPolicy(for: .signing, through: presence(nil)) == .pin)
    }

    @Test(arguments: PresencePreference.allCases)
    func `a token that prompts itself gets its only policy`(_ preference: PresencePreference) async
    {
        var token = capabilities([.none, .userPresence])
        token.readsFingers = true
        let presence = presence(nil, preferring: preference)
        #expect(await token.preferredPolicy(for: .sealing, through: presence) == .userPresence)
    }

    @Test func `a policy for signing and sealing is one that serves both`() async {
        let token = KeystoreCapabilities(
            device: "a token", root: .token, requirements: Self.all, sealing: [.none, .pin],
            canAttest: false)
        let presence = presence(.ready)
        #expect(await token.preferredPolicy(for: .signing, through: presence) == .userPresence)
        #expect(await token.preferredPolicy(for: .signingAndSealing, through: presence) == .pin)
    }

    private func capabilities(_ requirements: Set<AccessPolicy.Requirement>) -> KeystoreCapabilities
    {
        KeystoreCapabilities(
            device: "hardware", root: .tpm, requirements: requirements, canAttest: false)
    }

    private func presence(
        _ state: FingerState?, preferring preference: PresencePreference = .any
    ) -> ScriptedPresence {
        guard let state else { return ScriptedPresence([], preferring: preference) }
        return ScriptedPresence([], broker: StatedBroker(state: state), preferring: preference)
    }
}

/// A presence broker that reports one state of its reader, and approves nothing.
private struct StatedBroker: ApprovalService {
    let state: FingerState

    func fingerState() async -> FingerState { state }

    func terms(for policy: AccessPolicy) async throws(KeystoreError) -> PresenceTerms {
        throw Self.refusal
    }

    func approve(_ request: ApprovalRequest) async throws(KeystoreError) -> ApprovalAnswer {
        throw Self.refusal
    }

    func makeUserPIN() async throws(KeystoreError) -> UnsetUserPIN { throw Self.refusal }

    func isAbsent() async -> Bool { false }

    private static let refusal = KeystoreError(
        code: .unavailable, reason: "it approves nothing", recovery: "")
}
