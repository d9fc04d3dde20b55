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
