import ArgumentParser
import Latchkey
import LatchkeyLogin
import LatchkeyPresence
import LatchkeySimulators
import Logging

/// `latchkey demo`.
struct DemoCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract: "Show a login with a software TPM and a local identity server.",
        discussion: "Changes nothing outside a temporary directory. Requires the program swtpm.")

    @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

    func perform(in context: CommandContext) async throws -> DemoReport {
        try await Demonstration(output: DemoOutput(console: context.console), log: context.log)
            .run()
    }
}

/// The successful steps, in order. The text output shows them while they run.
struct DemoReport: Report {
    let steps: [String]

    var text: String { "" }
}

/// Runs the tool's commands with a software TPM, a local identity server, and a scripted browser
/// and user.
struct Demonstration {
    let output: DemoOutput
    let log: Logger

    func run() async throws -> DemoReport {
        let directory = try TemporaryDirectory()
        try output.heading("Start a software TPM and an identity server for this demo.")
        return try await SoftwareTPM.withRunning { tpm in
            try await LocalIdentityServer.withRunning { server in
                let context = try context(tpm.tcti, server, store: directory.path(of: "store"))
                try output.detail("TPM:     \(tpm.tcti)")
                try output.detail("Server:  \(server.endpoint), client \(server.clientID)")
                return try await DemoReport(steps: steps(in: context))
            }
        }
    }

    private func context(
        _ tcti: String, _ server: LocalIdentityServer.Address, store: String
    ) throws -> CommandContext {
        guard let user = server.users?.first else {
            throw Self.broken("the identity server has no user for the demo")
        }
        let settings = Settings(
            container: "demo", store: store, tcti: tcti, endpoint: server.endpoint,
            clientID: server.clientID)
        return CommandContext(
            settings: settings, console: output.console, presence: DemoPresence(output: output),
            browser: DemoBrowser(output: output, user: user), log: log)
    }

    private func steps(in context: CommandContext) async throws -> [String] {
        var steps: [String] = []
        func hold(_ step: String, _ holds: Bool) throws {
            guard holds else { throw Self.broken("the step ‘\(step)’ failed") }
            steps.append(step)
        }

        try output.heading("First the user logs in with a password in the browser.")
        let login = try await perform("login", LoginCommand.parse([]), context)
        try hold("login", !login.userInfo.userID.isEmpty)

        try output.heading(
            "Biometric login is enabled: the TPM creates a key that it uses only with the PIN.")
        let enabled = try await perform("enable", EnableCommand.parse([]), context)
        try hold("enable", enabled.policy == "pin")
        try output.detail(
            "The TPM created the private key and never exports it. The server has the public key.")

        let before = try await perform("status", StatusCommand.parse([]), context)
        try hold(
            "status: enabled", before.biometricEnabled && before.sessionState == .authenticated)

        try output.heading("The user logs out and keeps biometric login.")
        let out = try await perform(
            "logout --keep-biometric", LogoutCommand.parse(["--keep-biometric"]), context)
        try hold("logout", out.biometricEnabled && out.sessionState == .noSession)

        try output.heading(
            "The user logs in again with the PIN, without the browser and the password.")
        let back = try await perform("authenticate", AuthenticateCommand.parse([]), context)
        try hold(
            "authenticate", back.userInfo.userID == login.userInfo.userID && back.kid == enabled.kid
        )
        try output.detail("The TPM checked a proof of the PIN and signed the server's challenge.")

        let attempts = try await perform("pin status", PINCommand.Status.parse([]), context)
        try hold("pin status", !attempts.lockedOut)

        try output.heading(
            "Biometric login is disabled: the key is deleted here and removed from the server.")
        let disabled = try await perform("disable", DisableCommand.parse([]), context)
        try hold("disable", !disabled.output.biometricEnabled)
        let after = try await perform("status", StatusCommand.parse([]), context)
        try hold("status: not enabled", !after.biometricEnabled && after.kid.value == nil)

        try output.heading("That is all. The demo has removed its TPM, server and store.")
        return steps
    }

    /// Runs one of the tool's commands and shows its output.
    private func perform<C: ContextCommand>(
        _ words: String, _ command: C, _ context: CommandContext
    ) async throws -> C.Output {
        try output.command(words)
        let report = try await command.perform(in: context)
        try output.detail(report.text)
        return report
    }

    static func broken(_ reason: String) -> KeystoreError {
        KeystoreError(
            operation: "finish the demo", code: .failed, reason: reason,
            recovery: "Run it again with --verbose and report what it prints.")
    }
}

/// The demo's user, with one PIN. The demo shows it, because it protects nothing.
struct DemoPresence: PresenceAuthority {
    private static let pin = "258025"

    let output: DemoOutput

    func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        try output.detail(PromptWording(request).description)
        try output.detail("The demo enters \(Self.pin), as you would at a terminal.")
        return .pin(try PIN(Self.pin))
    }
}

/// Prints the demo's steps while they run: to stdout, or with `--json` to stderr.
struct DemoOutput: Sendable {
    let console: Console

    func heading(_ text: String) throws(KeystoreError) { try tell("\n\(text)", .strong) }

    func command(_ text: String) throws(KeystoreError) { try tell("  $ latchkey \(text)") }

    func detail(_ text: String) throws(KeystoreError) {
        for line in text.split(separator: "\n") { try tell("    \(line)") }
    }

    private func tell(_ line: String, _ tone: Style.Tone? = nil) throws(KeystoreError) {
        switch console.format {
        case .text: try console.result(tone.map { console.style(line, $0) } ?? line)
        case .json: console.say(String(line.trimmingPrefix("\n")))
        }
    }
}
