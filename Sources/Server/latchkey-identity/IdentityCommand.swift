import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeyRelyingParty

@main
struct IdentityCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "latchkey-identity",
        abstract: "A reference identity server for development and tests.",
        version: Release.version,
        subcommands: [
            ServeCommand.self, MigrateCommand.self, UsersCommand.self, DevicesCommand.self,
        ])

    static func main() async {
        ProcessMemory.protect()
        await main(nil)
    }
}

/// The database of an administrator's command, also while servers run.
struct DatabaseOption: ParsableArguments {
    @Option(
        help: "The server's SQLite file, or postgresql://HOST/DATABASE without a password.")
    var database: String

    /// - Throws: ``ConfigurationError``
    func open(creating: Bool = false) async throws -> any SQLDatabase {
        try await IdentityDatabase.open(database, creating: creating)
    }
}

struct MigrateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "migrate", abstract: "Create the tables, or change them for this version.",
        discussion: """
            All other commands except serve --demo only check the tables, so that they need no right to change them. Of several \
            processes, one changes the tables, and the others wait.
            """)

    @OptionGroup var store: DatabaseOption

    func run() async throws { _ = try await store.open(creating: true) }
}
