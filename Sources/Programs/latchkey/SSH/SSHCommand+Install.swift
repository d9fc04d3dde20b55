import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeyPlatform

extension SSHCommand {
    /// `latchkey ssh install`.
    struct Install: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "install",
            abstract: "Show how to set up ssh for latchkey-agent, or with --write, do it.",
            discussion: """
                The line IdentityAgent in ~/.ssh/config directs ssh, scp, sftp, and git when it connects, to \
                latchkey-agent in place of the agent in SSH_AUTH_SOCK. latchkey-agent passes requests for other keys on \
                to that agent. The lines for all hosts are the last ones of the file, so IdentityAgent of single hosts \
                stays in effect. The lines for the hosts of --host are the first ones.

                ‘git commit -S’ and ‘ssh-keygen -Y sign’ use SSH_AUTH_SOCK only.
                """)

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

        @Flag(help: "Add the lines to ~/.ssh/config.")
        var write = false

        @Flag(help: "Remove the lines from ~/.ssh/config.")
        var remove = false

        @Option(
            name: .customLong("host"),
            help: ArgumentHelp(
                "Direct ssh to latchkey-agent for this host only, a pattern of ssh_config(5). Name all hosts in one command: it "
                    + "replaces the lines of an earlier one.",
                valueName: "host"))
        var hosts: [String] = []

        func validate() throws {
            guard !remove || !write && hosts.isEmpty else {
                throw ValidationError("Give ‘--remove’ alone.")
            }
            for host in hosts
            where host.wholeMatch(of: /[A-Za-z0-9._*?!:\-]+/) == nil || host.hasPrefix("-") {
                throw ValidationError("‘\(printable(host))’ is not a host or a pattern of hosts.")
            }
        }

        var operation: String? { "set up ssh" }

        func perform(in context: CommandContext) async throws -> SSHInstallReport {
            let environment = ProcessInfo.processInfo.environment
            context.console.warnOfSudo(environment: environment)
            guard let home = environment["HOME"], home.hasPrefix("/") else {
                throw KeystoreError(
                    code: .unavailable, reason: "HOME is not set",
                    recovery: "Set it, and try again.")
            }
            let socket = AgentSocket(environment: environment)
            let file = SSHConfigurationFile(
                home: home, agentPath: try socket.sshPath(), hosts: hosts)
            if remove {
                return SSHInstallReport(
                    file: file, socket: socket, removed: try file.remove() ?? "")
            }
            let hidden = await UsualAgent(environment: environment, besides: socket)?
                .hidden(by: socket)
            if write, hosts.isEmpty, let hidden { throw hidden.conflict }
            let replaced = write ? try file.add() : nil
            return SSHInstallReport(
                file: file, socket: socket, isConfigured: try file.isComplete(),
                replaced: replaced, others: try file.otherAgents(), hidden: hidden)
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
    private let text: String
    var layout: Layout { Layout(text) }

    private enum CodingKeys: CodingKey {
        case path, isConfigured, isRunning
    }

    /// - Parameter replaced: The hosts of the lines that these replace.
    init(
        file: SSHConfigurationFile, socket: AgentSocket, isConfigured: Bool, replaced: String?,
        others: [String], hidden: UsualAgent.HiddenKeys?
    ) {
        (path, isRunning) = (file.path, socket.isServed)
        self.isConfigured = isConfigured
        let earlier = replaced.map { ", instead of those for \($0)" } ?? ""
        var parts = [
            isConfigured
                ? "\(printable(path)) has these lines\(earlier):\n\n\(file.lines)"
                : "‘latchkey ssh install --write’ makes these lines \(file.place) of \(printable(path)):\n\n\(file.lines)",
            "\(file.scope), ssh then asks latchkey-agent for keys, not the agent in SSH_AUTH_SOCK. latchkey-agent passes requests for other keys on to that agent. ‘latchkey ssh install --remove’ removes the lines.",
        ]
        if !others.isEmpty {
            parts.append(
                "These lines of the file name other agents:\n\n"
                    + others.map { "  \(printable($0))" }.joined(separator: "\n"))
        }
        if let hidden { parts.append("Warning: \(hidden.reason). \(hidden.advice)") }
        parts.append(
            isRunning
                ? "An agent serves \(socket.path)."
                : socket.start)
        parts.append("For git commits and ssh-keygen -Y:\n\n  export SSH_AUTH_SOCK=\(socket.path)")
        text = parts.joined(separator: "\n\n")
    }

    /// - Parameter removed: Empty if the file had no lines of latchkey-agent.
    init(file: SSHConfigurationFile, socket: AgentSocket, removed: String) {
        (path, isConfigured, isRunning) = (file.path, false, socket.isServed)
        text =
            removed.isEmpty
            ? "\(printable(path)) has no lines of latchkey-agent."
            : "Removed these lines from \(printable(path)):\n\n\(removed)"
    }
}
