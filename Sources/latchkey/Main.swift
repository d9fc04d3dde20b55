import ArgumentParser
import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyPKCS11

/// Where the tool starts, and the only place where it ends.
@main
enum Main {
    static func main() async {
        StandardStreams.secure()
        InheritedDescriptors.note()
        ProcessMemory.protect()
        let arguments = Array(CommandLine.arguments.dropFirst())
        // Also what can't be parsed is answered in the form that was asked for.
        let console = Console(
            format: arguments.contains("--json") ? .json : .text, isQuiet: arguments.contains("--quiet"))
        let work = Task { await run(arguments, console) }
        Interruption.catching {
            work.cancel()
        } end: {
            finish(console.fail(CancellationError()))
        } leave: {
            PKCS11Keystore.lockTokensAtExit()
        }
        finish(await work.value)
    }

    private static func run(_ arguments: [String], _ console: Console) async -> ExitStatus {
        do {
            var command = try LatchkeyTool.parseAsRoot(arguments)
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
        } catch let error as ReportedFailure {
            return error.status
        } catch let error where LatchkeyTool.exitCode(for: error) == .success {
            do {
                try console.result(LatchkeyTool.fullMessage(for: error))
            } catch {
                return console.fail(error)
            }
        } catch {
            return console.fail(error)
        }
        return .done
    }

    private static func finish(_ status: ExitStatus) -> Never {
        end(status.rawValue)
    }

    /// Ends without the exit handlers of PKCS#11 modules and OpenSSL, which take down what a token's thread may still be
    /// using, and then crash (SoftHSMv2#635, openssl#22508). Cards that a policy keeps unlocked are locked before.
    private static func end(_ status: Int32) -> Never {
        PKCS11Keystore.lockTokensAtExit()
        fflush(nil)
        _exit(status)
    }
}
