import ArgumentParser
import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyLogging
import LatchkeyPasskeys
import LatchkeyPresence
import Logging

extension PasskeyCommand {
    /// `latchkey passkey serve`.
    struct Serve: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "serve",
            abstract: "Present this user's passkeys to browsers and SSH, until it is stopped.",
            discussion: """
                The user service latchkey-passkeys.service runs this command in each graphical session. It connects to the \
                relay latchkey-uhid, and prompts with pinentry and the fingerprint reader. PINENTRY_PROGRAM names another \
                pinentry program.
                """)

        @OptionGroup(title: GlobalOptions.title) var options: GlobalOptions

        @Option(
            help: """
                The user verification that the hardware requires for new passkeys. (default: user-presence if your \
                fingerprint can be checked here, otherwise pin)
                """)
        var policy: LoginPolicyArgument?

        @Option(
            help: ArgumentHelp("Use another relay, a socket of your own processes, for tests.", valueName: "socket"))
        var relay: String?

        func run() async throws {
            let environment = ProcessInfo.processInfo.environment
            LoggingSystem.bootstrap { ServiceLog.handler(label: $0, environment: environment) }
            var log = Logger(label: "latchkey-passkeys")
            log.logLevel = options.verbose ? .debug : .info
            let context = try CommandContext(options)
            let connection = try RelayConnection(path: relay)
            let lock = PasskeyLock(observer: SessionLockObserver(), log: log)
            let engine = try await engine(context, lock, environment: environment, log: log)
            log.info("serving passkeys")
            try await PasskeyService(connection: connection, engine: engine, lock: lock).run(ready: Self.notifyReady)
            guard !Task.isCancelled else { return }
            throw KeystoreError(
                operation: "serve passkeys", code: .failed, reason: "the relay closed the connection",
                recovery: "Check that no other process serves your passkeys, and journalctl -u latchkey-uhid.")
        }

        private static func notifyReady() throws(KeystoreError) {
            do throws(BusError) {
                try Bus.notifyReady()
            } catch {
                throw KeystoreError(
                    operation: "serve passkeys", code: .unavailable, reason: error.message,
                    recovery: "Install libsystemd0.")
            }
        }

        private func engine(
            _ context: CommandContext, _ lock: PasskeyLock, environment: [String: String], log: Logger
        ) async throws -> PasskeyEngine {
            let records = try await context.records()
            guard let keystore = records.keystore as? any PasskeyKeystore else {
                throw KeystoreError.unsupported(
                    "this hardware's keys cannot be passkeys", recovery: "Use the TPM, without --token."
                )
                .during("serve passkeys")
            }
            let store = PasskeyStore(records: records) { log.error("\($0) \($0.recovery)") }
            try await store.open(authorizedBy: context.presence)
            let pins = ConfiguredPINSource(context.settings, environment: environment)
            let broker =
                context.settings.preference == .pin
                ? nil
                : SystemPresenceBroker { progress, prompt in
                    log.debug("fingerprint", metadata: ["progress": "\(progress.rawValue)", "prompt": "\(prompt)"])
                }
            let prompt = DesktopPasskeyPrompt(
                environment: environment, pins: pins, broker: broker, log: log,
                isLocked: { await lock.observer.isLocked() })
            return PasskeyEngine(
                keystore: keystore, store: store, prompt: prompt, policy: policy?.policy,
                aaguid: AAGUID(of: try await keystore.capabilities().root),
                requester: { HIDNode.ofUser(geteuid())?.openers() },
                onFailure: { log.info("a request failed", metadata: ["reason": "\($0)"]) })
        }
    }
}
