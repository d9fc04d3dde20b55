import ArgumentParser
import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyLogging
import LatchkeyLogin
import LatchkeyPKCS11
import LatchkeyPresence
import LatchkeyTPM
import Logging

/// The settings and services of a command. Creating it does not prompt or use the hardware or the network.
struct CommandContext: Sendable {
    let settings: Settings
    let console: Console
    let presence: any PresenceAuthority
    let browser: any Browser
    let log: Logger

    init(_ options: GlobalOptions) async throws {
        let environment = ProcessInfo.processInfo.environment
        let settings = try await Settings(options, environment: environment)
        let console = Console(format: options.json ? .json : .text, isQuiet: options.quiet)
        var log = Logger(label: "latchkey")
        log.logLevel = options.verbose ? .debug : .critical
        self.init(
            settings: settings, console: console,
            presence: BrokeredPresence(
                pins: ConfiguredPINSource(source: settings.pinSource, environment: environment),
                broker: SystemPresenceBroker { FingerNotice.show($0, $1, on: console) },
                preferring: settings.preference),
            browser: ProgramBrowser(console: console, environment: environment), log: log)
    }

    init(
        settings: Settings, console: Console, presence: any PresenceAuthority, browser: any Browser, log: Logger
    ) {
        self.settings = settings
        self.console = console
        self.presence = presence
        self.browser = browser
        self.log = log
    }

    /// Opens the store; creates it if it does not exist.
    func store() async throws(KeystoreError) -> RecordStore {
        log.debug("opening the store", metadata: ["directory": "\(settings.store)"])
        return try await RecordStore(directory: settings.store)
    }

    /// The token if one is configured, otherwise the TPM. Connects at the first use.
    ///
    /// - Parameter slot: The slot of a PIV card for the next created key.
    func keystore(_ store: RecordStore, slot: PIVSlot? = nil) -> any Keystore {
        if let uri = settings.token.uri {
            log.debug("using a token", metadata: ["uri": "\(uri)"])
            var options = settings.token.options
            options.slot = slot
            return PKCS11Keystore(uri: uri, options: options)
        }
        log.debug("using the TPM", metadata: ["tcti": "\(settings.tcti)"])
        return TPMKeystore(tcti: settings.tcti, anchors: store, allowsShortPINs: settings.allowsShortPINs)
    }

    /// The container's records.
    func records(slot: PIVSlot? = nil) async throws(KeystoreError) -> RecordContainer {
        let store = try await store()
        return try RecordContainer(name: settings.container, store: store, keystore: keystore(store, slot: slot))
    }

    /// The container's login.
    ///
    /// - Parameter binding: Whether to bind a login that an earlier version stored without its server to the configured
    ///   server. If false, the command asks for confirmation on the terminal.
    /// - Throws: ``KeystoreError`` with code `invalidInput` if no server is configured.
    func login(binding: Bool = false) async throws -> Container {
        let server = try identityServer()
        let name = settings.container
        let configuration = ContainerConfiguration(
            endpoint: server.endpoint, clientID: server.clientID, additionalOrigins: settings.trustedOrigins,
            bindsEarlierLogin: { server in
                if binding { return true }
                guard TerminalPresence.isPresent() else { return false }
                return try await TerminalQuestion.isConfirmed(
                    printable(
                        "An earlier version of Latchkey stored the login in the container ‘\(name)’ without its "
                            + "server. Does it belong to \(server)? If you confirm a wrong server, it gets your tokens."
                    ))
            })
        return try Container(
            configuration, records: await records(), presence: presence, browser: browser,
            transport: ServerTransport(log: log, console: console))
    }

    /// The configured server and the OAuth client ID.
    ///
    /// - Throws: ``KeystoreError`` with code `invalidInput` if one is missing or not valid.
    func identityServer() throws(KeystoreError) -> (endpoint: String, clientID: String) {
        let operation = "find the identity server"
        guard let endpoint = settings.endpoint else {
            throw Self.missing("endpoint", operation)
        }
        guard let clientID = settings.clientID, !clientID.isEmpty else { throw Self.missing("client-id", operation) }
        guard let address = Endpoint(endpoint), !address.path.contains("?") else {
            throw KeystoreError(
                operation: operation, code: .invalidInput,
                reason: "the endpoint ‘\(endpoint)’ is neither an https address nor an http address of this machine",
                recovery: "Correct --endpoint, LATCHKEY_ENDPOINT or the configuration file.")
        }
        return (endpoint, clientID)
    }

    private static func missing(_ name: String, _ operation: String) -> KeystoreError {
        KeystoreError(
            operation: operation, code: .invalidInput, reason: "no \(name) is configured",
            recovery: "Set --endpoint and --client-id, or put both into the configuration file: "
                + #"{"endpoint": "https://…", "client-id": "…"}."#)
    }

    /// The reason why the tool cannot prompt for PINs, as far as it is known before the first prompt.
    func pinObstacle() -> KeystoreError? {
        (settings.pinSource ?? .standard).obstacle(environment: ProcessInfo.processInfo.environment)
    }

    /// Reads the secret from standard input.
    ///
    /// - Throws: ``KeystoreError`` with code `invalidInput` if there are no bytes, too many, or if standard input is the
    ///   source of PINs.
    func readSecret(
        _ operation: String, limit: Int = StandardStreams.limit, larger: String = StandardStreams.adviceForLarger
    ) throws(KeystoreError) -> SecretBytes {
        guard settings.pinSource != .descriptor(0) else {
            throw KeystoreError(
                operation: operation, code: .invalidInput,
                reason: "standard input contains the data, so PINs cannot come from descriptor 0",
                recovery: "Use another descriptor for the PINs: --pin-source fd:3, with 3<file.")
        }
        if isatty(STDIN_FILENO) == 1 {
            console.say("Type the secret, and end with Return and Ctrl-D. The terminal shows the characters.")
        }
        return try StandardStreams.readSecret(operation, limit: limit, larger: larger)
    }

    /// The context of a prompt for a PIN or fingerprint.
    func prompt(_ reason: String) -> PromptContext {
        PromptContext(reason: reason, container: settings.container)
    }
}

/// A command that runs in a ``CommandContext`` and returns a ``Report``. The demo runs the same commands with another
/// context.
protocol ContextCommand: AsyncParsableCommand {
    associatedtype Output: Report

    var options: GlobalOptions { get }

    func perform(in context: CommandContext) async throws -> Output
}

extension ContextCommand {
    func run() async throws {
        if options.verbose { LoggingSystem.bootstrap { TextLogHandler(label: $0) } }
        let context = try await CommandContext(options)
        try context.console.show(try await perform(in: context))
    }
}
