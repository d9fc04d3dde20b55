import ArgumentParser
import Glibc
import Latchkey
import LatchkeyPlatform
import LatchkeyPresence
import LatchkeySSH
import LatchkeyServices
import Logging

/// `latchkey-agent`.
@main
struct AgentProgram: ServiceProgram {
    static let configuration = CommandConfiguration(
        commandName: "latchkey-agent",
        abstract:
            "Serve the SSH keys of a container to ssh, git and other clients, as an SSH agent (RFC 9987).",
        discussion: """
            systemd starts it with the socket $XDG_RUNTIME_DIR/latchkey/ssh-agent.sock; ‘latchkey ssh install’ sets it up. The \
            hardware requires your PIN or fingerprint for each signature, and the prompt names its use. The settings come \
            from the options, the environment and the configuration file of latchkey.
            """,
        version: Release.version)

    @Option(
        help: ArgumentHelp(
            "The socket to create. Default: the socket that systemd passes.", valueName: "path"))
    var socket: String?

    @Option(
        help: ArgumentHelp(
            "The files with the names of host keys, separated by colons. Default: those of OpenSSH.",
            valueName: "paths"
        ))
    var knownHosts: String?

    @Option(
        help: ArgumentHelp(
            """
            The socket of your other SSH agent, which gets the requests for other keys; none for no agent. \
            (LATCHKEY_AGENT_SOCKET; default: SSH_AUTH_SOCK)
            """, valueName: "path"))
    var agentSocket: String?

    @Option(
        help: ArgumentHelp(
            "The time for an answer of the other agent, longer for tests on a busy machine.",
            valueName: "seconds", visibility: .hidden))
    var agentLimit: UInt16 = 2

    @OptionGroup var options: ProgramOptions

    var isVerbose: Bool { options.verbose }

    static func main() async { await runToEnd() }

    func serve(environment: [String: String], log: Logger) async throws {
        let settings = try ProgramSettings(
            options, others: [.agentSocket: agentSocket], environment: environment)
        let presence = BrokeredPresence(
            pins: try settings.pins(environment: environment),
            broker: SystemPresenceBroker { _, _ in }, preferring: settings.preference)
        if let socket { try OwnPlace.check(socket) }
        let listener = try ListeningSocket.forAgent(at: socket)
        let refusals = RefusalLog(
            log, notification: DesktopNotification(environment: environment))
        let service = AgentService(
            settings, presence: presence,
            files: AgentService.HostFiles(
                knownHosts: knownHosts?.split(separator: ":").map(String.init)
                    ?? KnownHosts.defaultFiles(home: environment["HOME"]),
                configurations: HostNames.defaultFiles(home: environment["HOME"])),
            otherAgent: try otherAgent(settings, environment, besides: listener, log, refusals),
            refusals: refusals, log: log
        ) { (settings.pinSource ?? .pinentry).obstacle(environment: environment) }
        let observer = Task {
            await SessionLockObserver().repeatedly { _ in
                await service.lock()
            } onFirstFailure: {
                log.notice(
                    "\($0) A proof of a key with --reuse stays valid while the session is locked.")
            }
        }
        defer { observer.cancel() }
        reportMissingTPM(settings, log)
        let server = AgentServer(socket: listener, service: service, log: log)
        try server.start()
        log.notice(
            "serving SSH keys",
            metadata: [
                "container": "\(settings.container)", "socket": "\(socket ?? "systemd")",
                "otherAgent": "\(service.otherAgent?.path ?? "none")",
            ])
        await waitForEnd()
        server.stop()
    }

    /// A missing TPM is no error: it may come later, and keys of tokens work without one.
    private func reportMissingTPM(_ settings: ProgramSettings, _ log: Logger) {
        let prefix = "device:"
        guard settings.token == nil, settings.tcti.hasPrefix(prefix) else { return }
        let path = String(settings.tcti.dropFirst(prefix.count))
        guard access(path, F_OK) != 0 else { return }
        log.warning(
            "There is no TPM at \(path), so keys in it cannot sign. \(Recovery.Action.chooseTPM.command)"
        )
    }

    private func otherAgent(
        _ settings: ProgramSettings, _ environment: [String: String],
        besides listener: ListeningSocket, _ log: Logger, _ refusals: RefusalLog
    ) throws(KeystoreError) -> OtherAgent? {
        func agent(_ path: String) -> OtherAgent? {
            OtherAgent(
                path: path, quickLimit: .seconds(agentLimit), besides: listener, log: log,
                refusals: refusals)
        }
        guard let path = settings.agentSocket else {
            // The clients of this agent may have the same variable.
            let usual = environment["SSH_AUTH_SOCK"] ?? ""
            return usual.hasPrefix("/") ? agent(usual) : nil
        }
        guard path != "none" else { return nil }
        guard let other = agent(path) else {
            throw settings.invalid(.agentSocket, "‘\(path)’ is the socket of this agent")
        }
        return other
    }
}
