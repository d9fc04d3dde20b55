import ArgumentParser
import Latchkey
import LatchkeyLogin
import LatchkeySimulators
import Logging

/// The demo: the tool's own commands, run in a context whose hardware, server, browser and person are stand-ins.
struct Demonstration {
    let narrator: Narrator
    let log: Logger

    func run() async throws -> DemoReport {
        let directory = try TemporaryDirectory()
        try narrator.heading("A software TPM and an identity server start, for this demo alone.")
        return try await SoftwareTPM.withRunning { tpm in
            try await LocalIdentityServer.withRunning { server in
                let context = try context(tpm.tcti, server, store: directory.path(of: "store"))
                try narrator.detail("TPM:     \(tpm.tcti)")
                try narrator.detail("Server:  \(server.endpoint), client \(server.clientID)")
                return try await DemoReport(steps: steps(in: context))
            }
        }
    }

    private func context(
        _ tcti: String, _ server: LocalIdentityServer.Announcement, store: String
    ) throws -> CommandContext {
        guard let user = server.users?.first else {
            throw Self.broken("the identity server has no user for the demo")
        }
        let settings = Settings(
            container: "demo", store: store, tcti: tcti, endpoint: server.endpoint, clientID: server.clientID)
        return CommandContext(
            settings: settings, console: narrator.console, presence: DemoPresence(narrator: narrator),
            browser: DemoBrowser(narrator: narrator, user: user), log: log)
    }

    private func steps(in context: CommandContext) async throws -> [String] {
        var steps: [String] = []
        func hold(_ step: String, _ holds: Bool) throws {
            guard holds else { throw Self.broken("the step ‘\(step)’ did not hold") }
            steps.append(step)
        }

        try narrator.heading("First the user logs in in the browser, with a password.")
        let login = try await perform("login", LoginCommand.parse([]), context)
        try hold("login", !login.userInfo.userID.isEmpty)

        try narrator.heading("Biometric login is enabled: the TPM makes a key that it will use with the PIN only.")
        let enabled = try await perform("enable", EnableCommand.parse([]), context)
        try hold("enable", enabled.policy == "pin")
        try narrator.detail("The private key was born in the TPM and can't leave it. The server got the public key.")

        let before = try await perform("status", StatusCommand.parse([]), context)
        try hold("status: enabled", before.biometricEnabled && before.sessionState == .authenticated)

        try narrator.heading("The session goes: the user logs out and keeps biometric login.")
        let out = try await perform("logout --keep-biometric", LogoutCommand.parse(["--keep-biometric"]), context)
        try hold("logout", out.biometricEnabled && out.sessionState == .noSession)

        try narrator.heading("Without a browser and without a password the user is back: the PIN, the TPM, the server.")
        let back = try await perform("authenticate", AuthenticateCommand.parse([]), context)
        try hold("authenticate", back.userInfo.userID == login.userInfo.userID && back.kid == enabled.kid)
        try narrator.detail("The TPM checked the PIN and signed the server's challenge; the PIN went to it encrypted.")

        let attempts = try await perform("pin status", PINStatusCommand.parse([]), context)
        try hold("pin status", !attempts.lockedOut)

        try narrator.heading("Biometric login is disabled: the key is deleted here, and the server forgets it.")
        let disabled = try await perform("disable", DisableCommand.parse([]), context)
        try hold("disable", !disabled.output.biometricEnabled)
        let after = try await perform("status", StatusCommand.parse([]), context)
        try hold("status: not enabled", !after.biometricEnabled && after.kid.value == nil)

        try narrator.heading("That is all. The TPM, the server and the store of this demo are gone now.")
        return steps
    }

    /// Runs one of the tool's commands and shows what it would have printed.
    private func perform<C: ContextCommand>(
        _ words: String, _ command: C, _ context: CommandContext
    ) async throws -> C.Output {
        try narrator.command(words)
        let report = try await command.perform(in: context)
        try narrator.detail(report.text)
        return report
    }

    static func broken(_ reason: String) -> KeystoreError {
        KeystoreError(
            operation: "finish the demo", code: .failed, reason: reason,
            recovery: "Run it again with --verbose and report what it prints.")
    }
}
