import Glibc
import Latchkey
import LatchkeyPlatform
import LatchkeySSH

/// Requests to an SSH agent.
enum AgentQuery {
    private static let limit: Duration = .seconds(5)

    /// - Returns: nil if no agent answers at the path.
    static func identities(of path: String) async -> [AgentIdentity]? {
        guard let answer = await answer(of: path, to: AgentRequest.listMessage) else { return nil }
        return (try? OtherAgentAnswer.identities(answer))?.identities
    }

    /// The keys of latchkey-agent itself, without those of the other agent behind it.
    ///
    /// - Throws: ``SSHFormatError`` if no agent answers.
    static func ownIdentities(of path: String) async throws(SSHFormatError) -> [AgentIdentity] {
        guard
            let answer = await answer(
                of: path, to: AgentRequest.ownKeysMessage, AgentRequest.listMessage)
        else { throw SSHFormatError("the agent does not answer") }
        return try OtherAgentAnswer.identities(answer).identities
    }

    /// The reason why latchkey-agent cannot prompt, and the next step; both nil if no reason is
    /// known.
    ///
    /// - Throws: ``SSHFormatError`` if no agent answers, or it is another agent.
    static func promptObstacle(
        of path: String
    ) async throws(SSHFormatError) -> (reason: String, advice: String)? {
        guard let answer = await answer(of: path, to: AgentRequest.promptObstacleMessage) else {
            throw SSHFormatError("the agent does not answer")
        }
        return try OtherAgentAnswer.promptObstacle(answer)
    }

    /// Sends the messages, one after the other.
    ///
    /// - Returns: The answer to the last one.
    private static func answer(of path: String, to messages: [UInt8]...) async -> [UInt8]? {
        await BlockingThread().run {
            let type = __socket_type(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue)
            guard let descriptor = try? UNIXSocketAddress(path: path)?.connectedSocket(type)
            else { return nil }
            defer { close(descriptor) }
            let exchange = AgentExchange(descriptor)
            var last: [UInt8]?
            for message in messages {
                let answer = try? exchange.answer(to: message, until: .now + Self.limit)
                guard let answer = answer ?? nil else { return nil }
                last = answer
            }
            return last
        }
    }
}
