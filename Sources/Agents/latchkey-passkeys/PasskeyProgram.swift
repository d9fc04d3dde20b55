import ArgumentParser
import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyPKCS11
import LatchkeyPasskeys
import LatchkeyPresence
import LatchkeyServices
import Logging
import UnixSignals

/// `latchkey-passkeys`.
@main
struct PasskeyProgram: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "latchkey-passkeys",
        abstract: "Present this user's passkeys to browsers and SSH, until it is stopped.",
        discussion: """
            The user service latchkey-passkeys.service runs it in each graphical session. It connects to the relay \
            latchkey-uhid, and prompts with pinentry and the fingerprint reader. PINENTRY_PROGRAM names another pinentry \
            program. The settings come from the options, the environment (LATCHKEY_CONTAINER, LATCHKEY_STORE, \
            LATCHKEY_TCTI, LATCHKEY_TOKEN, LATCHKEY_TOKEN_LOGIN, LATCHKEY_TOKEN_ISOLATION, LATCHKEY_PIN_SOURCE) and the \
            configuration file of latchkey.
            """,
        version: Release.version)

    @Option(
        help: """
            The user verification that the hardware requires for new passkeys. (default: user-presence if your \
            fingerprint can be checked here, otherwise pin)
            """)
    var policy: PasskeyPolicy?

    @Option(
        help: ArgumentHelp(
            "Use another relay, a socket of your own processes, for tests.", valueName: "socket"))
    var relay: String?

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
            "Where to enter the token's PIN: auto, pin or reader. (LATCHKEY_TOKEN_LOGIN)",
            valueName: "way"))
    var tokenLogin: String?

    @Option(
        help: ArgumentHelp(
            "When to run the token's module in a separate process: auto, always or never. (LATCHKEY_TOKEN_ISOLATION)",
            valueName: "when"))
    var tokenIsolation: String?

    @Option(
        help: ArgumentHelp(
            "The source of PINs: tty, pinentry, fd:N or file:PATH. (LATCHKEY_PIN_SOURCE; default: tty, otherwise pinentry)",
            valueName: "source"))
    var pinSource: String?

    @Option(
        help:
            "The preferred user verification, if a passkey allows more than one: any, pin or finger.",
        completion: .list(PresencePreference.allCases.map(\.rawValue)),
        transform: { text in
            guard let presence = PresencePreference(rawValue: text) else {
                throw ValidationError("‘\(text)’ is not any, pin or finger.")
            }
            return presence
        })
    var presence: PresencePreference?

    @Flag(
        help:
            "Accept a new PIN of fewer than 6 characters even if the TPM's lockout password is empty."
    )
    var allowShortPin = false

    @Flag(help: "Log each request.") var verbose = false

    /// How long the running request may take to close its prompt and release the hardware after a
    /// signal.
    private static let grace: Duration = .seconds(10)

    static func main() async {
        ProgramStart.secure()
        await Self.main(nil)
    }

    func run() async throws {
        umask(0o077)
        let environment = ProcessInfo.processInfo.environment
        LoggingSystem.bootstrap { ServiceLog.handler(label: $0, environment: environment) }
        var log = Logger(label: "latchkey-passkeys")
        log.logLevel = verbose ? .debug : .info
        var trapped: [UnixSignal] = [.sigterm, .sigint, .sigquit]
        // Under nohup, the end of the terminal does not end the service.
        if !SignalCatcher.isIgnored(SIGHUP) { trapped.append(.sighup) }
        let signals = await UnixSignalsSequence(trapping: trapped)
        let work = Task { [log] in try await serve(log, environment: environment) }
        Task {
            for await _ in signals {
                work.cancel()
                try? await Task.sleep(for: Self.grace)
                Self.end(0)
            }
        }
        switch await work.result {
        case .success: break
        case .failure where work.isCancelled: break
        case .failure(let error as KeystoreError):
            Self.report(error, log)
            // A refusal here is a configuration file that others can write. Exit status 9 means
            // that a server refused.
            Self.end(
                error.code == .refused
                    ? CommonErrorCode.invalidInput.exitStatus : error.code.exitStatus)
        case .failure(let error): throw error
        }
        Self.end(0)
    }

    /// Reports the error that ends the service: on a terminal as a line for the user, otherwise in
    /// the log.
    private static func report(_ error: KeystoreError, _ log: Logger) {
        guard isatty(STDERR_FILENO) == 1 else {
            log.critical("\(error) \(error.advice)")
            return
        }
        let line =
            "latchkey-passkeys: "
            + String(escaping: "\(error) \(error.advice)", maximumBytes: 4096) + "\n"
        _ = write(STDERR_FILENO, line, line.utf8.count)
    }

    /// Ends the process without the exit handlers of PKCS#11 modules, which free memory that a
    /// token's thread may still use.
    private static func end(_ status: Int32) -> Never {
        PKCS11Keystore.lockTokensAtExit()
        fflush(nil)
        _exit(status)
    }

    private func serve(_ log: Logger, environment: [String: String]) async throws {
        let settings = try ServiceSettings(
            options: [
                "container": container, "store": store, "tcti": tcti, "token": token,
                "token-login": tokenLogin,
                "token-isolation": tokenIsolation, "pin-source": pinSource,
            ], allowsShortPINs: allowShortPin, environment: environment)
        let connection = try RelayConnection(path: relay)
        let observer = SessionLockObserver()
        let authenticator = try await authenticator(
            settings, observer, environment: environment, log: log)
        log.info("serving passkeys")
        try await PasskeyService(
            connection: connection, authenticator: authenticator, observer: observer, log: log
        )
        .run(ready: Bus.notifyReady)
        try Task.checkCancellation()
        throw KeystoreError(
            operation: "serve passkeys", code: .failed, reason: "the relay closed the connection",
            recovery:
                "Check that no other process serves your passkeys, and read ‘journalctl -u latchkey-uhid’."
        )
    }

    private func authenticator(
        _ settings: ServiceSettings, _ observer: SessionLockObserver, environment: [String: String],
        log: Logger
    ) async throws -> Authenticator {
        let records = try await settings.records()
        guard let keystore = records.keystore as? any PasskeyKeystore else {
            throw KeystoreError.unsupported(
                "this hardware's keys cannot be passkeys", recovery: "Use the TPM, without --token."
            )
            .during("serve passkeys")
        }
        let finger = SystemPresenceBroker { progress, prompt in
            log.debug(
                "fingerprint",
                metadata: ["progress": "\(progress.rawValue)", "prompt": "\(prompt)"])
        }
        let store = PasskeyStore(records: records) { log.error("\($0) \($0.advice)") }
        try await store.open(
            authorizedBy: BrokeredPresence(
                pins: settings.pins, broker: finger, preferring: presence ?? .any))
        let prompt = DesktopPasskeyPrompt(
            environment: environment, pins: settings.pins, broker: presence == .pin ? nil : finger,
            log: log,
            isLocked: { await observer.isLocked() })
        let engine = PasskeyEngine(
            keystore: keystore, store: store, prompt: prompt, policy: policy?.policy,
            openers: { HIDNode.ofUser(geteuid())?.openers(user: geteuid()) },
            onFailure: { log.info("a request failed", metadata: ["reason": "\($0)"]) })
        return Authenticator(
            engine, aaguid: AAGUID(of: try await keystore.capabilities().root))
    }
}

extension ServiceSettings {
    /// The container's records in the configured hardware.
    fileprivate func records() async throws(KeystoreError) -> RecordContainer {
        let opened = try await RecordStore.opened(configured: store)
        return try RecordContainer(
            name: container, store: opened, keystore: hardware.keystore(opened))
    }
}

/// The value of `--policy`: a policy that requires user verification.
struct PasskeyPolicy: ExpressibleByArgument {
    let policy: AccessPolicy

    init?(argument: String) {
        guard let requirement = AccessPolicy.Requirement(rawValue: argument), requirement != .none,
            let policy = AccessPolicy(requirement)
        else { return nil }
        self.policy = policy
    }

    static let allValueStrings = AccessPolicy.Requirement.allCases.filter { $0 != .none }.map(
        \.rawValue)
}
