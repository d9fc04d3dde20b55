/// An answer of an SSH agent (RFC 9987 section 3).
package enum AgentAnswer: Hashable, Sendable {
    /// SSH_AGENT_FAILURE.
    case failure
    /// SSH_AGENT_SUCCESS.
    case success
    /// SSH_AGENT_IDENTITIES_ANSWER.
    case identities([AgentIdentity])
    /// SSH_AGENT_SIGN_RESPONSE.
    case signature([UInt8])
    /// SSH_AGENT_EXTENSION_FAILURE: the extension is known and its contents are refused.
    case extensionFailure
    /// SSH_AGENT_EXTENSION_RESPONSE: the name of the extension, and strings.
    case extensionResponse(String, [String])
    /// A message of another agent, which ``OtherAgentAnswer`` has checked.
    case other([UInt8])

    /// The names of the extensions that this agent supports.
    package static let supportedExtensions = extensionResponse(
        AgentRequest.queryName,
        [
            AgentRequest.queryName, AgentRequest.sessionBindName, AgentRequest.ownKeysName,
            AgentRequest.promptObstacleName,
        ])

    /// The answer to ``AgentRequest/promptObstacle``.
    package static func promptObstacle(reason: String, advice: String) -> AgentAnswer {
        .extensionResponse(AgentRequest.promptObstacleName, [reason, advice])
    }

    /// The message with its length.
    package var frame: [UInt8] {
        var body = SSHWriter()
        switch self {
        case .failure: body.byte(5)
        case .success: body.byte(6)
        case .identities(let keys):
            body.byte(12)
            body.uint32(UInt32(truncatingIfNeeded: keys.count))
            for key in keys {
                body.string(key.publicKey)
                body.string(key.comment)
            }
        case .signature(let signature):
            body.byte(14)
            body.string(signature)
        case .extensionFailure: body.byte(28)
        case .extensionResponse(let name, let strings):
            body.byte(29)
            body.string(name)
            for string in strings { body.string(string) }
        case .other(let message): body.raw(message)
        }
        var frame = SSHWriter()
        frame.string(body.bytes)
        return frame.bytes
    }

    package static func == (left: AgentAnswer, right: AgentAnswer) -> Bool {
        left.frame == right.frame
    }

    package func hash(into hasher: inout Hasher) { hasher.combine(frame) }
}
