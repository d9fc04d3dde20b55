import ArgumentParser
import Latchkey
import LatchkeyPKCS11
import LatchkeyServices

/// `latchkey`.
@main
struct LatchkeyTool: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "latchkey",
        abstract: "Log in, sign and store secrets with keys in a TPM or PKCS#11 token.",
        discussion: """
            The hardware creates the keys and uses them only after your PIN or fingerprint. ‘latchkey doctor’ checks this \
            machine.

            A container is a set of keys, vaults and credentials, for example for one account: --container \
            selects it. Biometric login replaces the login page of a server by a key in the hardware, which a PIN can \
            open too. The locker encrypts data for sessions with a server; easy access starts a session with your PIN \
            or fingerprint instead of the login page.

            Exit codes: \(ExitStatus.allCases.map { "\($0.rawValue) \($0.meaning)" }.joined(separator: ", ")).
            """,
        version: Release.version,
        subcommands: [DoctorCommand.self, ConfigCommand.self, StoreCommand.self],
        groupedSubcommands: [
            CommandGroup(
                name: "Biometric login",
                subcommands: [
                    LoginCommand.self, EnableCommand.self, AuthenticateCommand.self,
                    DisableCommand.self,
                    StatusCommand.self, LogoutCommand.self,
                ]),
            CommandGroup(
                name: "Keys",
                subcommands: [KeyCommand.self, SSHCommand.self, PINCommand.self, TokenCommand.self]),
            CommandGroup(
                name: "Proof to servers",
                subcommands: [AttestationCommand.self, BrokerCommand.self]),
            CommandGroup(name: "Passkeys", subcommands: [PasskeyCommand.self]),
            CommandGroup(name: "Sign-in to Linux", subcommands: [DesktopCommand.self]),
            CommandGroup(
                name: "Secrets",
                subcommands: [VaultCommand.self, CredentialCommand.self, LockerCommand.self]),
        ])

    @OptionGroup(title: GlobalOptions.title) var options: GlobalOptions

    static func main() async {
        ProgramShell.start()
        let arguments = Array(CommandLine.arguments.dropFirst())
        // Arguments that cannot be parsed are reported in the requested format too.
        let console = Console(
            format: arguments.contains("--json") ? .json : .text,
            isQuiet: arguments.contains("--quiet"))
        let work = Task { await run(arguments, console) }
        Interruption.catching {
            work.cancel()
        } end: {
            end(console.fail(CancellationError()))
        } leave: {
            PKCS11Keystore.lockTokensAtExit()
        }
        let status = await work.value
        Interruption.waitForEndBySignal()
        end(status)
    }

    private static func end(_ status: ExitStatus) -> Never {
        if status != .done { Interruption.endIfInterrupted(PKCS11Keystore.lockTokensAtExit) }
        ProgramShell.end(status)
    }

    private static func run(_ arguments: [String], _ console: Console) async -> ExitStatus {
        do {
            try ProgramTexts.check()
            try CommandWords.check(arguments)
            var command = try await asyncParseAsRoot(arguments)
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
        } catch let error as ReportedFailure {
            return error.status
        } catch let error where exitCode(for: error) == .success {
            do {
                let text = fullMessage(for: error)
                if text == Release.version {
                    try console.show(VersionReport())
                } else {
                    try console.result(CommandHelp.complete(text))
                }
            } catch {
                return console.fail(error)
            }
        } catch {
            return console.fail(error)
        }
        return .done
    }
}

/// Ends the process with a status after the command has printed its own report.
struct ReportedFailure: Error {
    let status: ExitStatus
}
