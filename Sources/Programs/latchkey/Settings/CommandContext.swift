import ArgumentParser
import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyLogin
import LatchkeyPKCS11
import LatchkeyPresence
import LatchkeyServices
import Logging

/// The settings and services of a command. Creating it does not prompt or use the hardware or the
/// network.
struct CommandContext: Sendable {
    let settings: ProgramSettings
    /// Other origins that may receive the identity server's tokens.
    let trustedOrigins: Set<String>
    let console: Console
    let presence: any PresenceAuthority
    let browser: any Browser
    let log: Logger
    /// Whether the command creates a missing store.
    let createsStore: Bool

    init(_ options: GlobalOptions, createsStore: Bool) throws {
        self.createsStore = createsStore
        let environment = ProcessInfo.processInfo.environment
        let settings = try options.settings(environment: environment)
        let console = Console(format: options.json ? .json : .text, isQuiet: options.quiet)
        (self.settings, self.console) = (settings, console)
        if settings.token != nil { StandardStreams.keepOutputPrivate() }
        trustedOrigins = settings.origins
        var log = Logger(label: "latchkey")
        log.logLevel = options.verbose ? .debug : .critical
        self.log = log
        presence = BrokeredPresence(
            pins: ConfiguredPINSource(settings.pinSource, environment: environment),
            broker: SystemPresenceBroker { FingerNotice.show($0, $1, on: console) },
            preferring: settings.preference)
        browser = SystemBrowser(
            environment: environment,
            message: {
                for line in $0.split(separator: "\n") { console.say(String(line)) }
                console.say(
                    "If the page does not know the app, press Ctrl-C and check --client-id.")
            },
            warning: {
                for line in $0.split(separator: "\n") { console.warn(String(line)) }
            })
    }

    /// Opens the store, and creates nothing.
    ///
    /// - Throws: The store's own error, for commands that report the store itself.
    func store() async throws(KeystoreError) -> RecordStore {
        log.debug("opening the store", metadata: ["directory": "\(settings.store)"])
        try OwnPlace.check(settings.store)
        return try await RecordStore(existing: settings.store)
    }

    /// Opens the store of a command that reads or changes records. If there is none, only some
    /// commands create it: see ``ContextCommand/createsStore``. Others find nothing in it.
    func recordStore() async throws(KeystoreError) -> RecordStore {
        log.debug("opening the store", metadata: ["directory": "\(settings.store)"])
        guard !createsStore else { return try await settings.openedStore() }
        let store = try await settings.existingStore()
        // The default directory has no store before the first command that stores something.
        if store.isMissing, let place = settings.values.place(of: .store) {
            console.warn("There is no store at \(printable(settings.store)), which \(place) names.")
        }
        return store
    }

    /// The token if one is configured, otherwise the TPM.
    ///
    /// - Parameter slot: The slot of a PIV card for the next created key.
    func keystore(_ store: RecordStore, slot: PIVSlot? = nil) -> any Keystore {
        let hardware = settings.token.map { "the token \($0)" } ?? "the TPM \(settings.tcti)"
        log.debug("using \(hardware)")
        return settings.keystore(store, slot: slot)
    }

    /// The container's records.
    func records(slot: PIVSlot? = nil) async throws(KeystoreError) -> RecordContainer {
        console.warnOfSudo()
        let store = try await recordStore()
        return try RecordContainer(
            name: settings.container, store: store, keystore: keystore(store, slot: slot))
    }

    /// Whether other hardware protects the records, so that a command shows none of them. If yes,
    /// prints a warning. Reads one public key from the hardware (`TPM2_ReadPublic`), without a
    /// prompt.
    func isForeign(_ records: RecordContainer) async throws(KeystoreError) -> Bool {
        guard try await records.isForeign() else { return false }
        console.warn(
            "Other hardware protects the stored records. With --store DIR, a command uses another store; ‘latchkey store reset’ archives them."
        )
        return true
    }

    /// Checks that the configured token can seal under `policy`. Call it before a command creates
    /// another key on the token.
    func checkSealing(_ records: RecordContainer, under policy: AccessPolicy)
        async throws(KeystoreError)
    {
        guard settings.token != nil, policy != .none else { return }
        try await records.keystore.capabilities().checkSealing(under: policy)
    }

    /// The reason why the tool cannot prompt for PINs, as far as it is known before the first
    /// prompt.
    func pinObstacle() -> KeystoreError? {
        (settings.pinSource ?? .standard).obstacle(environment: ProcessInfo.processInfo.environment)
    }

    /// Reads the secret from standard input: from a terminal one line, which is not shown.
    ///
    /// - Throws: ``KeystoreError``: `invalidInput` if there are no bytes, too many, or if standard
    ///   input is the source of PINs, `cancelled` if the user declines at the terminal.
    func readSecret(
        limit: Int = StandardStreams.limit, larger: String = StandardStreams.adviceForLarger
    ) async throws(KeystoreError) -> SecretBytes {
        guard settings.pinSource != .descriptor(0) else {
            throw KeystoreError(
                operation: "read standard input", code: .invalidInput,
                reason: "standard input contains the data, so PINs cannot come from descriptor 0",
                recovery: "Use another descriptor for the PINs: --pin-source fd:3, with 3<file.")
        }
        guard isatty(STDIN_FILENO) != 1 else {
            return try await TerminalSecret.line(
                "Type the secret in one line, which is not shown. For more lines, redirect a file (< FILE).",
                limit: limit)
        }
        return try StandardStreams.readSecret(limit: limit, larger: larger)
    }

    /// The container, as a part of a sentence about its absent contents; empty for the default one.
    /// A misspelled name is that of an empty container.
    var place: String {
        settings.container == Setting.container.standard
            ? "" : " in the container ‘\(printable(settings.container))’"
    }

    /// The context of a prompt for a PIN or fingerprint.
    func prompt(_ reason: String) -> PromptContext {
        PromptContext(reason: reason, container: settings.container)
    }
}

/// A command that runs in a ``CommandContext`` and returns a ``Report``.
protocol ContextCommand: AsyncParsableCommand {
    associatedtype Output: Report

    var arguments: GlobalOptions { get }
    /// The operation for the errors of this command, as a verb phrase; nil if the errors already
    /// name their operation.
    var operation: String? { get }
    /// Whether the command creates the store if there is none: it stores something that needs
    /// nothing in the store.
    static var createsStore: Bool { get }

    func perform(in context: CommandContext) async throws -> Output
}

extension ContextCommand {
    var operation: String? { nil }
    static var createsStore: Bool { false }

    func run() async throws { try await runInContext() }

    /// Reads the settings, performs the command, and shows its report.
    func runInContext() async throws {
        if arguments.verbose { LoggingSystem.bootstrap { TextLogHandler(label: $0) } }
        let context = try CommandContext(arguments, createsStore: Self.createsStore)
        HardwareWait.report(to: context.console.waitNotice)
        let report: Output
        do {
            // Some modules of tokens write their own messages to standard error.
            report =
                arguments.verbose || context.settings.token == nil
                ? try await perform(in: context)
                : try await StandardStreams.withoutForeignMessages {
                    try await perform(in: context)
                }
        } catch {
            throw context.settings.permitted(
                reported(error, isTPM: context.settings.token == nil))
        }
        try context.console.show(report)
        if report.status != .done { throw ReportedFailure(status: report.status) }
    }
}

extension ContextCommand {
    /// The command's words, such as `latchkey key sign`.
    private static var words: String {
        LatchkeyTool.usageString(for: Self.self).split(separator: " ")
            .prefix { !$0.hasPrefix("[") && !$0.hasPrefix("<") }.joined(separator: " ")
    }

    /// The error with the command's operation, and with commands of the tool as the next step.
    private func reported(_ error: any Error, isTPM: Bool) -> any Error {
        let error = operation.map(error.during) ?? error
        return switch error {
        case let error as KeystoreError
        where error.recoveryAction == .correctValue:
            error.with(recovery: "Correct the value, and run ‘\(Self.words)’ again.")
        case let error as KeystoreError
        where error.code == .wrongDevice && isTPM
            && Set(error.recoveryAction.actions).isDisjoint(with: [.resetStore, .chooseToken]):
            error.with(recovery: error.recoveryAction.offering(.resetStore))
        case let error as LoginError where error.code == .unauthenticated:
            error.with(recovery: "Run ‘latchkey login’, then ‘\(Self.words)’ again.")
        default: error
        }
    }
}
