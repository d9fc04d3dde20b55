import ArgumentParser
import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyPKCS11
import LatchkeyServices

/// Starts the tool and ends the process.
@main
enum Main {
    static func main() async {
        ProgramStart.secure()
        let arguments = Array(CommandLine.arguments.dropFirst())
        // Before everything that takes time. If the output cannot be written, the parser's version
        // reports the error.
        if arguments == ["--version"],
            (try? StandardStreams.write("\(Release.version)\n".utf8)) != nil
        {
            finish(.done)
        }
        // Arguments that cannot be parsed are reported in the requested format too.
        let console = Console(
            format: arguments.contains("--json") ? .json : .text,
            isQuiet: arguments.contains("--quiet"))
        let work = Task { await run(arguments, console) }
        Interruption.catching {
            work.cancel()
        } end: {
            finish(console.fail(CancellationError()))
        } leave: {
            PKCS11Keystore.lockTokensAtExit()
        }
        let status = await work.value
        Interruption.waitForEndBySignal()
        finish(status)
    }

    private static func run(_ arguments: [String], _ console: Console) async -> ExitStatus {
        do {
            var command = try LatchkeyTool.parse(arguments)
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
        } catch let error as ReportedFailure {
            return error.status
        } catch let error where LatchkeyTool.exitCode(for: error) == .success {
            do {
                try console.result(LatchkeyTool.help(LatchkeyTool.fullMessage(for: error)))
            } catch {
                return console.fail(error)
            }
        } catch {
            return console.fail(error)
        }
        return .done
    }

    /// Ends the process without the exit handlers of PKCS#11 modules and OpenSSL: they free what a
    /// token's thread may still use, which crashes (SoftHSMv2#635, openssl#22508). Locks the cards
    /// that a policy keeps unlocked.
    private static func finish(_ status: ExitStatus) -> Never {
        PKCS11Keystore.lockTokensAtExit()
        fflush(nil)
        _exit(status.rawValue)
    }
}

/// `latchkey`.
struct LatchkeyTool: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "latchkey",
        abstract: "Log in, sign and store secrets with keys in a TPM or PKCS#11 token.",
        discussion: """
            The hardware creates the keys and uses them only after your PIN or fingerprint. ‘latchkey doctor’ checks this \
            machine; ‘latchkey demo’ shows a login.

            Exit codes: 0 done, 1 other failure, 2 usage, 3 cancelled or declined, 4 wrong PIN or finger, 5 locked out, \
            6 not found or not enabled, 7 hardware, reader, broker or network unavailable, 8 damaged, wrong device or \
            invalidated, 9 refused by the server, 10 conflict, try again.
            """,
        version: Release.version,
        subcommands: [DoctorCommand.self, DemoCommand.self, StoreCommand.self],
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
            CommandGroup(
                name: "Secrets",
                subcommands: [VaultCommand.self, CredentialCommand.self, LockerCommand.self]),
        ])

    @OptionGroup(title: GlobalOptions.title) var options: GlobalOptions

    /// A help text with the global options as its last section. ArgumentParser puts them before the
    /// command's own.
    static func help(_ text: String) -> String {
        let heading = "\n\(GlobalOptions.title.uppercased()):\n"
        guard let start = text.firstRange(of: heading)?.lowerBound,
            let end = text[start...].dropFirst().firstRange(of: "\n\n")?.lowerBound
        else { return text }
        let options = text[start...end]
        let rest = text[..<start] + text[end...].dropFirst()
        let hint = rest.firstRange(of: "\n  See 'latchkey help")?.lowerBound ?? rest.endIndex
        return String(rest[..<hint] + options + rest[hint...])
    }
}
