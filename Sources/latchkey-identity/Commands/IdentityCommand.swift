import ArgumentParser
import Latchkey

@main
struct IdentityCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "latchkey-identity",
        abstract: "A small identity server for development and tests.",
        version: Release.version,
        subcommands: [ServeCommand.self, UsersCommand.self])

    static func main() async {
        ProcessMemory.protect()
        await main(nil)
    }
}
