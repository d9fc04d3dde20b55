import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyLogin
import LatchkeyPKCS11
import LatchkeyPresence
import LatchkeyTPM
import Logging

/// What a command works with. Nothing in it touches the hardware, the network or a person before a command does.
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
                pins: LazyPresence(source: settings.pinSource, environment: environment),
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

    /// The store, made where there is none.
    func store() async throws(KeystoreError) -> RecordStore {
        log.debug("opening the store", metadata: ["directory": "\(settings.store)"])
        return try await RecordStore(directory: settings.store)
    }

    /// The hardware: the token where one is named, else the TPM. It is not reached for before it is used.
    ///
    /// - Parameter slot: Where a PIV card makes the next key.
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
    /// - Parameter binding: Whether a login that an earlier version stored without naming its server belongs to the
    ///   configured server; otherwise the user is asked at the terminal.
    /// - Throws: ``KeystoreError`` with code `invalidInput` when no server is named.
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

    /// The server that was named, and this program's name there.
    ///
    /// - Throws: ``KeystoreError`` with code `invalidInput` when none is named, or one that can't be.
    func identityServer() throws(KeystoreError) -> (endpoint: String, clientID: String) {
        let operation = "find the identity server"
        guard let endpoint = settings.endpoint else {
            throw Self.missing("endpoint", operation)
        }
        guard let clientID = settings.clientID, !clientID.isEmpty else { throw Self.missing("client-id", operation) }
        guard let address = Endpoint(endpoint), !address.path.contains("?") else {
            throw KeystoreError(
                operation: operation, code: .invalidInput,
                reason: "the endpoint ‘\(endpoint)’ is neither an https address nor on this machine",
                recovery: "Correct --endpoint, LATCHKEY_ENDPOINT or the configuration file.")
        }
        return (endpoint, clientID)
    }

    private static func missing(_ name: String, _ operation: String) -> KeystoreError {
        KeystoreError(
            operation: operation, code: .invalidInput, reason: "no \(name) is configured",
            recovery: "Give --endpoint and --client-id, or put both into the configuration file: "
                + #"{"endpoint": "https://…", "client-id": "…"}."#)
    }

    /// What keeps PINs from being asked for, as far as that shows before one is.
    func pinObstacle() -> KeystoreError? {
        (settings.pinSource ?? .standard).obstacle(environment: ProcessInfo.processInfo.environment)
    }

    /// Everything on standard input.
    ///
    /// - Throws: ``KeystoreError`` with code `invalidInput` when there is nothing, too much, or PINs are to come from there.
    func readSecret(
        _ operation: String, limit: Int = StandardStreams.limit, larger: String = StandardStreams.adviceForLarger
    ) throws(KeystoreError) -> SecretBytes {
        guard settings.pinSource != .descriptor(0) else {
            throw KeystoreError(
                operation: operation, code: .invalidInput,
                reason: "standard input is where the data comes from, so PINs can't come from descriptor 0",
                recovery: "Give PINs by another one: --pin-source fd:3, with 3<file.")
        }
        if isatty(STDIN_FILENO) == 1 {
            console.say("Type it, and end with Return and Ctrl-D. What you type is shown.")
        }
        return try StandardStreams.readSecret(operation, limit: limit, larger: larger)
    }

    /// What a person is told when asked for a PIN.
    func prompt(_ reason: String) -> PromptContext {
        PromptContext(reason: reason, container: settings.container)
    }
}
