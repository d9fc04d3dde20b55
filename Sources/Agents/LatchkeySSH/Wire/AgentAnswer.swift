/// An answer of an SSH agent (RFC 9987 section 3).
package enum AgentAnswer: Hashable, Sendable {
    /// SSH_AGENT_FAILURE.
    case failure
    /// SSH_AGENT_SUCCESS.
    case success
    /// SSH_AGENT_IDENTITIES_ANSWER: public keys or certificates, each with a comment.
    case identities([(publicKey: [UInt8], comment: String)])
    /// SSH_AGENT_SIGN_RESPONSE.
    case signature([UInt8])
    /// SSH_AGENT_EXTENSION_FAILURE: the extension is known and its contents are refused.
    case extensionFailure
    /// SSH_AGENT_EXTENSION_RESPONSE to `query`.
    case extensions([String])

    /// The names of the extensions that this agent supports.
    package static let supportedExtensions = extensions(["query", AgentRequest.sessionBindName])

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
        case .extensions(let names):
            body.byte(29)
            body.string("query")
            for name in names { body.string(name) }
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
