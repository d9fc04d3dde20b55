import ArgumentParser
import Latchkey

/// `latchkey`.
struct LatchkeyTool: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "latchkey",
        abstract: "Keys in a TPM or a token that sign when you are there.",
        discussion: """
            Log in with a key that this machine's TPM or a token keeps and your finger or PIN unlocks, and use such \
            keys directly.
            Exit codes: 0 done, 1 other failure, 2 usage, 3 cancelled, 4 wrong PIN or finger, 5 locked out, 6 not \
            found or not enabled, 7 hardware or network unavailable, 8 damaged, wrong device or invalidated, 9 refused \
            by the server, 10 conflict.
            """,
        version: Release.version,
        subcommands: [DoctorCommand.self, DemoCommand.self],
        groupedSubcommands: [
            CommandGroup(
                name: "Biometric login",
                subcommands: [
                    LoginCommand.self, EnableCommand.self, AuthenticateCommand.self, DisableCommand.self,
                    StatusCommand.self, LogoutCommand.self,
                ]),
            CommandGroup(name: "Keys", subcommands: [KeyCommand.self, PINCommand.self, TokenCommand.self]),
            CommandGroup(
                name: "Secrets", subcommands: [VaultCommand.self, CredentialCommand.self, LockerCommand.self]),
        ])

    @OptionGroup var options: GlobalOptions
}
