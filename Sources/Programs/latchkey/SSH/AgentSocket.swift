import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyPlatform
import LatchkeySSH

/// The socket of latchkey-agent.socket.
struct AgentSocket {
    static let name = "latchkey/ssh-agent.sock"

    /// In `XDG_RUNTIME_DIR` if that is an absolute path outside `/run/user`, otherwise in
    /// `/run/user/UID`.
    let path: String
    private let isStandard: Bool

    init(environment: [String: String]) {
        let other = environment["XDG_RUNTIME_DIR"].flatMap {
            $0.hasPrefix("/") && !$0.hasPrefix("/run/user/") ? $0 : nil
        }
        isStandard = other == nil
        path = "\(other ?? "/run/user/\(getuid())")/\(Self.name)"
    }

    /// The path for ssh_config(5), where `%i` is the user's ID. It names no variable, because ssh
    /// refuses its whole configuration if a variable is not set, as in cron.
    ///
    /// - Throws: ``KeystoreError`` with code `invalidInput` for a path with characters other than
    ///   ASCII letters, digits and `/ . _ -`. Some of them have a meaning in the file or in a
    ///   shell.
    func sshPath() throws -> String {
        if isStandard { return "/run/user/%i/\(Self.name)" }
        guard path.wholeMatch(of: /[A-Za-z0-9\/._\-]+/) != nil else {
            throw KeystoreError(
                code: .invalidInput,
                reason:
                    "XDG_RUNTIME_DIR has a character that may have a meaning for ssh or the shell",
                recovery:
                    "Use a directory whose path has only the characters A–Z, a–z, 0–9 and / . _ -")
        }
        return path
    }

    /// Whether the socket accepts a connection. systemd accepts it before it starts the agent.
    var isServed: Bool { UNIXSocketAddress(path: path)?.isServed == true }

    /// Whether a path is the one of this socket.
    func isSame(_ other: String) -> Bool {
        var (one, two) = (stat(), stat())
        return other == path
            || stat(path, &one) == 0 && stat(other, &two) == 0
                && (one.st_dev, one.st_ino) == (two.st_dev, two.st_ino)
    }

    /// The commands that start the agent.
    var start: String {
        // sd_booted(3)
        access("/run/systemd/system", F_OK) == 0
            ? "  systemctl --user enable --now latchkey-agent.socket"
            : """
              mkdir -m 700 -p \(path.dropLast(AgentSocket.fileName.count))
              latchkey-agent --socket \(path) &
            """
    }

    private static let fileName = "/ssh-agent.sock"
}

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
