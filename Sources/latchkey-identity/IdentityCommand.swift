import ArgumentParser
import Latchkey
import LatchkeyRelyingParty

@main
struct IdentityCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "latchkey-identity",
        abstract: "A small identity server for development and tests.",
        version: Release.version,
        subcommands: [
            ServeCommand.self, UsersCommand.self, DevicesCommand.self, ApprovalKeysCommand.self, AuditCommand.self,
            MigrateCommand.self, CheckCommand.self,
        ])

    static func main() async {
        ProcessMemory.protect()
        await main(nil)
    }
}

/// The database that an administrator's command uses, also while servers run.
struct DatabaseOption: ParsableArguments {
    @Option(help: "The server's SQLite file, or postgresql://HOST/DATABASE.")
    var database: String

    /// Opens the database, and migrates it.
    func open() async throws -> any SQLDatabase { try await IdentityDatabase.open(location: database) }

    func administration() async throws -> Administration { Administration(database: try await open()) }
}
