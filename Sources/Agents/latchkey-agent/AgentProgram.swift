import ArgumentParser
import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyPKCS11
import LatchkeyPlatform
import LatchkeyPresence
import LatchkeyServices
import Logging
import UnixSignals

/// `latchkey-agent`.
@main
struct AgentProgram: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "latchkey-agent",
        abstract:
            "Serve the SSH keys of a container to ssh, git and other clients, as an SSH agent (RFC 9987).",
        discussion: """
            systemd starts it with the socket $XDG_RUNTIME_DIR/latchkey/ssh-agent.sock; ‘latchkey ssh install’ sets it up. The \
            hardware requires your PIN or fingerprint for each signature, and the prompt names its use. The settings come \
            from the options, the environment (LATCHKEY_CONTAINER, LATCHKEY_STORE, LATCHKEY_TCTI, LATCHKEY_TOKEN, \
            LATCHKEY_TOKEN_LOGIN, LATCHKEY_TOKEN_ISOLATION, LATCHKEY_PIN_SOURCE) and the configuration file of latchkey.
            """,
        version: Release.version)

    @Option(
        help: ArgumentHelp(
            "The socket to create. Default: the socket that systemd passes.", valueName: "path"))
    var socket: String?

    @Option(
        help: ArgumentHelp(
            "The container. (LATCHKEY_CONTAINER; default: default)", valueName: "name"))
    var container: String?

    @Option(help: ArgumentHelp("The directory of the store. (LATCHKEY_STORE)", valueName: "dir"))
    var store: String?

    @Option(
        help: ArgumentHelp("The TPM, as a TCTI configuration. (LATCHKEY_TCTI)", valueName: "conf"))
    var tcti: String?

    @Option(
        help: ArgumentHelp(
            "A PKCS#11 token instead of the TPM, as an RFC 7512 URI. (LATCHKEY_TOKEN)",
            valueName: "uri")
    )
    var token: String?

    @Option(
        help: ArgumentHelp(
            "The source of PINs: tty, pinentry, fd:N or file:PATH. (LATCHKEY_PIN_SOURCE; default: tty, otherwise pinentry)",
            valueName: "source"))
    var pinSource: String?

    @Option(
        help: ArgumentHelp(
            "The files with the names of host keys, separated by colons. Default: those of OpenSSH.",
            valueName: "paths"
        ))
    var knownHosts: String?

    @Flag(help: "Log each request.") var verbose = false

    static func main() async {
        ProgramStart.secure()
        await Self.main(nil)
    }

    func run() async throws {
        umask(0o077)
        let environment = ProcessInfo.processInfo.environment
        LoggingSystem.bootstrap { ServiceLog.handler(label: $0, environment: environment) }
        var log = Logger(label: "latchkey-agent")
        log.logLevel = verbose ? .debug : .notice
        do {
            try await serve(log, environment: environment)
        } catch let error as KeystoreError {
            log.critical("\(error) \(error.advice)")
            throw ExitCode(error.code == .unavailable ? 7 : 1)
        }
        // The exit handlers of PKCS#11 modules free memory that a token's thread may still use.
        PKCS11Keystore.lockTokensAtExit()
        fflush(nil)
        _exit(0)
    }

    private func serve(_ log: Logger, environment: [String: String]) async throws {
        let settings = try AgentSettings(
            options: [
                "container": container, "store": store, "tcti": tcti, "token": token,
                "pin-source": pinSource,
            ], knownHosts: knownHosts, environment: environment)
        // Trap signals before the socket exists: a signal that is not trapped ends the process at
        // once, so the socket stays and tokens are not locked.
        let signals = await UnixSignalsSequence(trapping: .sigterm, .sigint)
        let listener = try ListeningSocket.forAgent(at: socket)
        let service = AgentService(settings, log: log)
        let observer = Task {
            await SessionLockObserver().repeatedly {
                await service.lock()
            } onFirstFailure: {
                log.notice(
                    "\($0) A proof of a key with --reuse stays valid while the session is locked.")
            }
        }
        defer { observer.cancel() }
        let server = AgentServer(socket: listener, service: service, log: log)
        try server.start()
        log.notice(
            "serving SSH keys",
            metadata: [
                "container": "\(settings.service.container)", "socket": "\(socket ?? "systemd")",
            ])
        for await _ in signals { break }
        server.stop()
    }
}
