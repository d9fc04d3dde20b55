import Latchkey
import LatchkeySSH

/// The reply to a message: the answer of this agent, or the part of the other agent in it.
enum AgentReply: Sendable {
    case own(AgentAnswer)
    /// The answer to a session binding, which the other agent gets too.
    case bound(AgentAnswer)
    /// The keys of this agent. Those of the other one follow.
    case identities([AgentIdentity])
    /// The other agent signs.
    case otherSignature
    /// The other agent answers.
    case other
}

/// A prompt after a wrong PIN.
struct SecondAttempt: PresenceAuthority {
    let authority: any PresenceAuthority

    var broker: PresenceBroker? { authority.broker }
    var preference: PresencePreference { authority.preference }
    var acceptsEarlierProof: Bool { authority.acceptsEarlierProof }
    var isInteractive: Bool { authority.isInteractive }

    func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        var request = request
        request.hint = "The last PIN was wrong."
        return try await authority.pin(request)
    }

    func notice(_ notice: PresenceNotice) async { await authority.notice(notice) }
    func accepted() { authority.accepted() }
    func rejected() { authority.rejected() }
}
