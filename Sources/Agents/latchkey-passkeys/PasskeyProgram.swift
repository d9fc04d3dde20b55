import ArgumentParser
import Glibc
import Latchkey
import LatchkeyPasskeys
import LatchkeyPresence
import LatchkeyServices
import Logging

/// `latchkey-passkeys`.
@main
struct PasskeyProgram: ServiceProgram {
    static let configuration = CommandConfiguration(
        commandName: "latchkey-passkeys",
        abstract: "Present this user's passkeys to browsers and SSH, until it is stopped.",
        discussion: """
            The user service latchkey-passkeys.service runs it in each graphical session. It connects to the relay \
            latchkey-uhid, and prompts with pinentry and the fingerprint reader. PINENTRY_PROGRAM names another pinentry \
            program. The settings come from the options, the environment and the configuration file of latchkey.
            """,
        version: Release.version)

    @Option(
        help: """
            The user verification that the hardware requires for new passkeys. (default: user-presence if your \
            fingerprint can be checked here, otherwise pin)
            """)
    var policy: VerifyingPolicy?

    @Option(
        help: ArgumentHelp(
            "Use another relay, a socket of your own processes, for tests.", valueName: "socket"))
    var relay: String?

    @OptionGroup var options: ProgramOptions

    var isVerbose: Bool { options.verbose }

    static func main() async { await runToEnd() }

    func serve(environment: [String: String], log: Logger) async throws {
        let settings = try ProgramSettings(options, environment: environment)
        let (values, chosen) = (options.values, policy?.policy)
        // Read for each new passkey: the administrator can raise the minimum while this runs.
        let currentPolicy = { @Sendable () throws(KeystoreError) -> AccessPolicy? in
            try ProgramSettings(
                SettingsReader(options: values, environment: environment), environment: environment
            ).policy(chosen)
        }
        _ = try currentPolicy()
        let pins = try settings.pins(environment: environment)
        let connection = try RelayConnection(path: relay)
        let observer = SessionLockObserver()
        let (conflicts, found) = AsyncStream.makeStream(
            of: KeystoreError.self, bufferingPolicy: .bufferingOldest(1))
        let authenticator = try await authenticator(
            settings, pins: pins, policy: currentPolicy, observer: observer,
            environment: environment,
            log: log
        ) { found.yield($0) }
        log.info("serving passkeys")
        let service = PasskeyService(
            connection: connection, authenticator: authenticator, observer: observer,
            display: environment["DISPLAY"], log: log)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await service.run(ready: Bus.notifyReady) }
            // Another program emptied or replaced the store. systemd starts the service again, which
            // opens the new one.
            group.addTask {
                for await error in conflicts { throw error.during("serve passkeys") }
            }
            defer { group.cancelAll() }
            try await group.next()
        }
        try Task.checkCancellation()
        throw KeystoreError(
            operation: "serve passkeys", code: .failed, reason: "the relay closed the connection",
            recovery:
                "Check that no other process serves your passkeys, and read ‘journalctl -u latchkey-uhid’."
        )
    }

    private func authenticator(
        _ settings: ProgramSettings, pins: any PresenceAuthority,
        policy: @escaping @Sendable () throws(KeystoreError) -> AccessPolicy?,
        observer: SessionLockObserver, environment: [String: String], log: Logger,
        onConflict: @escaping @Sendable (KeystoreError) -> Void
    ) async throws -> Authenticator {
        let records = try settings.records(in: try await settings.openedStore())
        try records.store.checkWritable()
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
                pins: pins, broker: finger, preferring: settings.preference))
        let prompt = DesktopPasskeyPrompt(
            environment: environment, pins: pins,
            broker: settings.preference == .pin ? nil : finger, log: log,
            isLocked: { await observer.isLocked(display: environment["DISPLAY"]) })
        _ = await prompt.canPrompt()
        let engine = PasskeyEngine(
            keystore: keystore, store: store, prompt: prompt, policy: policy,
            openers: { HIDNode.ofUser(geteuid())?.openers(user: geteuid()) },
            onFailure: { error in
                log.info("a request failed", metadata: ["reason": "\(error)"])
                if error.code == .conflict { onConflict(error) }
            })
        return Authenticator(
            engine, aaguid: AAGUID(of: try await keystore.capabilities().root)
        ) { request, status in
            log.debug(
                "answered a request", metadata: ["request": "\(request)", "status": "\(status)"])
        }
    }
}
