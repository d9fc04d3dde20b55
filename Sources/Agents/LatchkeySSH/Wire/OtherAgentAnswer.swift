internal import Latchkey

/// The answers of another agent. They are untrusted: a message has at most
/// ``AgentRequest/maximumBytes``, and each part is checked.
package enum OtherAgentAnswer {
    /// The maximum length of a comment in characters.
    private static let commentLimit = 256

    /// The keys of another agent.
    package struct Listing: Hashable, Sendable {
        package var identities: [AgentIdentity] = []
        /// The number of other keys, with which OpenSSH's clients would refuse the whole list.
        package var unreadable = 0
    }

    /// Reads SSH_AGENT_IDENTITIES_ANSWER. An agent that answers with a failure lists nothing. Bytes
    /// after the keys are ignored, as in OpenSSH.
    package static func identities(_ message: [UInt8]) throws(SSHFormatError) -> Listing {
        var reader = SSHReader(message)
        let type = try reader.byte()
        if type == 5 {
            try reader.end()
            return Listing()
        }
        guard type == 12 else { throw SSHFormatError("the other agent lists no keys") }
        let count = try reader.uint32()
        guard count <= AgentIdentity.maximumCount else {
            throw SSHFormatError("the other agent lists too many keys")
        }
        var listing = Listing()
        for _ in 0..<count {
            let (key, comment) = (try reader.string(), try reader.string())
            if ListedKey.isReadable(key) {
                listing.identities.append(AgentIdentity(publicKey: key, comment: line(comment)))
            } else {
                listing.unreadable += 1
            }
        }
        return listing
    }

    private static func line(_ comment: [UInt8]) -> String {
        String(oneLine: String(decoding: comment, as: UTF8.self), limit: commentLimit)
    }

    /// Checks the answer to a request for a signature.
    package static func signature(_ message: [UInt8]) throws(SSHFormatError) -> AgentAnswer {
        var reader = SSHReader(message)
        guard try reader.byte() == 14 else { return .failure }
        let signature = try reader.string()
        try reader.end()
        guard !signature.isEmpty else { throw SSHFormatError("the signature is empty") }
        return .signature(signature)
    }

    /// Checks the answer to another request: a success, a failure, or the answer of an extension.
    package static func other(_ message: [UInt8]) throws(SSHFormatError) -> AgentAnswer {
        switch message.first {
        case 5?, 6?, 28?:
            guard message.count == 1 else {
                throw SSHFormatError("bytes follow the answer of the other agent")
            }
        case 29?: break
        default: throw SSHFormatError("the answer of the other agent has an unknown type")
        }
        return .other(message)
    }

    /// Reads the answer to ``AgentRequest/promptObstacleMessage``.
    ///
    /// - Returns: nil if there is no obstacle.
    /// - Throws: ``SSHFormatError`` for the answer of an agent without this extension.
    package static func promptObstacle(
        _ message: [UInt8]
    ) throws(SSHFormatError) -> (reason: String, advice: String)? {
        var reader = SSHReader(message)
        guard try reader.byte() == 29, try reader.text() == AgentRequest.promptObstacleName else {
            throw SSHFormatError("the agent does not know the request")
        }
        let (reason, advice) = (try reader.text(), try reader.text())
        try reader.end()
        return reason.isEmpty ? nil : (String(oneLine: reason), String(oneLine: advice))
    }
}
