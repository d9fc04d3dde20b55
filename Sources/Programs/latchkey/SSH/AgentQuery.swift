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
        return try? OtherAgentAnswer.identities(answer)
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

    private static func answer(of path: String, to message: [UInt8]) async -> [UInt8]? {
        await BlockingThread().run {
            let type = __socket_type(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue)
            guard let descriptor = try? UNIXSocketAddress(path: path)?.connectedSocket(type)
            else { return nil }
            defer { close(descriptor) }
            let answer = try? AgentExchange(descriptor).answer(
                to: message, until: .now + Self.limit)
            return answer ?? nil
        }
    }
}
