import ArgumentParser
import FoundationEssentials
import Glibc
import Latchkey
import SystemPackage
import UNIXSockets

extension SSHCommand {
    /// `latchkey ssh install`.
    struct Install: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "install",
            abstract: "Show how to set up ssh for latchkey-agent, or with --write, do it.",
            discussion: """
                The line IdentityAgent in ~/.ssh/config directs ssh to the agent. Other programs keep their agent in \
                SSH_AUTH_SOCK. git uses the line too when it connects, but ‘git commit -S’ and ‘ssh-keygen -Y sign’ use \
                SSH_AUTH_SOCK only.
                """)

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

        @Flag(help: "Add the line to ~/.ssh/config.") var write = false

        var operation: String? { "set up ssh" }

        func perform(in context: CommandContext) async throws -> SSHInstallReport {
            let environment = ProcessInfo.processInfo.environment
            guard let home = environment["HOME"], home.hasPrefix("/") else {
                throw KeystoreError(code: .unavailable, reason: "HOME is not set", recovery: "Set it, and try again.")
            }
            let socket = AgentSocket(environment: environment)
            let file = SSHConfigurationFile(home: home, socket: socket)
            let isWritten = try write ? file.add() : file.isComplete
            return SSHInstallReport(
                path: file.path, isConfigured: isWritten, isRunning: socket.isServed, lines: file.lines)
        }
    }
}

struct SSHInstallReport: Report {
    /// The configuration file of ssh.
    let path: String
    /// Whether the file directs ssh to the agent.
    let isConfigured: Bool
    /// Whether the agent's socket accepts connections.
    let isRunning: Bool
    /// The lines that direct ssh to the agent.
    let lines: String

    private enum CodingKeys: CodingKey {
        case path, isConfigured, isRunning
    }

    var text: String {
        let configuration =
            isConfigured
            ? "\(printable(path)) directs ssh to latchkey-agent."
            : "Put these lines first in \(printable(path)), or use --write:\n\n\(lines)"
        let socket =
            isRunning
            ? "latchkey-agent.socket is active."
            : "Start the agent's socket:\n\n  systemctl --user enable --now latchkey-agent.socket"
        return """
            \(configuration)

            \(socket)

            For git commits and ssh-keygen -Y:

              export SSH_AUTH_SOCK="$XDG_RUNTIME_DIR/\(AgentSocket.name)"
            """
    }
}

/// The socket of latchkey-agent.socket.
struct AgentSocket {
    static let name = "latchkey/ssh-agent.sock"

    /// nil without `XDG_RUNTIME_DIR`.
    let path: String?

    init(environment: [String: String]) {
        path = environment["XDG_RUNTIME_DIR"].flatMap { $0.hasPrefix("/") ? "\($0)/\(Self.name)" : nil }
    }

    /// The path for ssh_config(5), where `%i` is the user's ID. It names no variable, because ssh refuses its whole configuration
    /// if a variable is not set, as in cron.
    var sshPath: String {
        guard let path, path != "/run/user/\(getuid())/\(Self.name)" else { return "/run/user/%i/\(Self.name)" }
        return path.replacing("%", with: "%%")
    }

    /// Whether the socket accepts a connection. systemd accepts it before it starts the agent.
    var isServed: Bool {
        guard let path, let connection = UNIXSocketAddress(path: path)?.connectedSocket() else { return false }
        close(connection)
        return true
    }
}

/// The user's configuration file of ssh, `~/.ssh/config`.
struct SSHConfigurationFile {
    /// The line of earlier versions.
    private static let earlierLine = "    IdentityAgent ${XDG_RUNTIME_DIR}/\(AgentSocket.name)"

    private let agentLine: String
    /// The lines that direct ssh to the agent. They are the first of the file, because ssh uses the first value of an option.
    var lines: String { "# latchkey-agent\nHost *\n\(agentLine)\n" }

    /// The file, or the target of the symbolic link in its place.
    let path: String
    private let directory: String

    init(home: String, socket: AgentSocket) {
        agentLine = "    IdentityAgent \(socket.sshPath)"
        directory = "\(home)/.ssh"
        path = URL(filePath: "\(directory)/config").resolvingSymlinksInPath().path
    }

    /// Whether the file contains the line.
    var isComplete: Bool {
        (try? contents())?.split(whereSeparator: \.isNewline).contains { $0 == agentLine } ?? false
    }

    /// Puts the lines before the contents of the file, which keeps its mode. Replaces the line of an earlier version. Changes
    /// nothing if the line is there.
    ///
    /// - Returns: true.
    func add() throws -> Bool {
        guard !isComplete else { return true }
        let mode = (try? Stat(FilePath(path)))?.permissions.rawValue ?? 0o600
        do {
            let earlier = try contents()
            try FileManager.default.createDirectory(
                atPath: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
            let text =
                earlier.contains(Self.earlierLine)
                ? earlier.replacing(Self.earlierLine, with: agentLine) : lines + (earlier.isEmpty ? "" : "\n" + earlier)
            try Data(text.utf8).write(to: URL(filePath: path), options: .atomic)
        } catch {
            throw KeystoreError(
                code: .unavailable, reason: "\(path) cannot be changed (\(error))",
                recovery: "Add the lines that ‘latchkey ssh install’ prints.")
        }
        chmod(path, mode)
        return true
    }

    /// The text of the file; empty if it does not exist. Its bytes must be UTF-8, so that no byte is lost.
    private func contents() throws -> String {
        guard FileManager.default.fileExists(atPath: path) else { return "" }
        return try String(contentsOfFile: path, encoding: .utf8)
    }
}
