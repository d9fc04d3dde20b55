import ArgumentParser
import FoundationEssentials
import Glibc
import Latchkey

/// Where the tool starts, and the only place where it ends.
@main
enum Main {
    static func main() async {
        CoreDumps.forbid()
        let arguments = Array(CommandLine.arguments.dropFirst())
        // Also what can't be parsed is answered in the form that was asked for.
        let console = Console(
            format: arguments.contains("--json") ? .json : .text, isQuiet: arguments.contains("--quiet"))
        do {
            var command = try LatchkeyTool.parseAsRoot(arguments)
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
        } catch let error as ReportedFailure {
            finish(error.status)
        } catch let error where LatchkeyTool.exitCode(for: error) == .success {
            console.result(LatchkeyTool.fullMessage(for: error))
        } catch {
            finish(console.fail(error))
        }
    }

    private static func finish(_ status: ExitStatus) -> Never {
        fflush(nil)
        exit(status.rawValue)
    }
}
