import ArgumentParser
import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyPlatform
import SystemPackage

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

        @Flag(help: "Add the lines to ~/.ssh/config.")
        var write = false

        var operation: String? { "set up ssh" }

        func perform(in context: CommandContext) async throws -> SSHInstallReport {
            let environment = ProcessInfo.processInfo.environment
            guard let home = environment["HOME"], home.hasPrefix("/") else {
                throw KeystoreError(
                    code: .unavailable, reason: "HOME is not set",
                    recovery: "Set it, and try again.")
            }
            let socket = AgentSocket(environment: environment)
            let file = SSHConfigurationFile(home: home, agentPath: try socket.sshPath())
            if write { try file.add() }
            return SSHInstallReport(
                path: file.path, isConfigured: file.isComplete, isRunning: socket.isServed,
                lines: file.lines,
                socket: socket.path)
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
    /// The path of the agent's socket.
    let socket: String

    private enum CodingKeys: CodingKey {
        case path, isConfigured, isRunning
    }

    var layout: Layout {
        let configuration =
            isConfigured
            ? "\(printable(path)) directs ssh to latchkey-agent."
            : "Run ‘latchkey ssh install --write’, or put these lines first in \(printable(path)).\n\n\(lines)"
        let service =
            isRunning
            ? "latchkey-agent.socket is active."
            : "Start the agent's socket:\n\n  systemctl --user enable --now latchkey-agent.socket"
        return .verbatim(
            """
            \(configuration)

            \(service)

            For git commits and ssh-keygen -Y:

              export SSH_AUTH_SOCK=\(socket)
            """)
    }
}

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
}

/// The user's configuration file of ssh, `~/.ssh/config`.
struct SSHConfigurationFile {
    private let agentLine: String
    /// The lines that direct ssh to the agent. They are the first of the file, because ssh uses the
    /// first value of an option.
    var lines: String { "# latchkey-agent\nHost *\n\(agentLine)\n" }

    /// The file, or the target of the symbolic link in its place.
    let path: String
    private let directory: String

    /// - Parameter agentPath: The value of ``AgentSocket/sshPath()``.
    init(home: String, agentPath: String) {
        agentLine = "    IdentityAgent \(agentPath)"
        directory = "\(home)/.ssh"
        path = URL(filePath: "\(directory)/config").resolvingSymlinksInPath().path
    }

    /// Whether the file contains the line.
    var isComplete: Bool {
        guard let text = try? contents() else { return false }
        return text.split(whereSeparator: \.isNewline).contains { $0 == agentLine }
    }

    /// Puts the lines before the contents of the file, unless it is complete. Keeps its mode.
    func add() throws {
        guard !isComplete else { return }
        let mode = (try? Stat(FilePath(path)))?.permissions.rawValue ?? 0o600
        do {
            let present = try contents()
            try FileManager.default.createDirectory(
                atPath: directory, withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700])
            let text = lines + (present.isEmpty ? "" : "\n" + present)
            try Data(text.utf8).write(to: URL(filePath: path), options: .atomic)
        } catch {
            throw KeystoreError(
                code: .unavailable, reason: "\(path) cannot be changed (\(error))",
                recovery: "Add the lines that ‘latchkey ssh install’ prints.")
        }
        chmod(path, mode)
    }

    /// The text of the file; empty if it does not exist. Its bytes must be UTF-8, so that no byte
    /// is lost.
    private func contents() throws -> String {
        guard FileManager.default.fileExists(atPath: path) else { return "" }
        return try String(contentsOfFile: path, encoding: .utf8)
    }
}
