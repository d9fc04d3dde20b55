import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeyRelyingParty

@main
struct IdentityCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "latchkey-identity",
        abstract: "A small identity server for development and tests.",
        version: Release.version,
        subcommands: [
            ServeCommand.self, UsersCommand.self, DevicesCommand.self, ApprovalKeysCommand.self,
            SigningKeysCommand.self, AuditCommand.self, MigrateCommand.self, CheckCommand.self,
        ])

    static func main() async {
        ProcessMemory.protect()
        await main(nil)
    }
}

/// The database that an administrator's command uses, also while servers run.
struct DatabaseOption: ParsableArguments {
    @Option(
        help: """
            The server's SQLite file, or postgresql://HOST/DATABASE. Default: the member database.address of the configuration, \
            or else the database that \(ServeCommand.databaseVariable) names.
            """)
    var database: String?

    @Option(help: "The server's configuration, a JSON file.")
    var config: String?

    /// - Throws: ``ConfigurationError`` if the file cannot be used.
    func serverConfiguration() throws -> ServerConfiguration? {
        try config.map { path in try ServerConfiguration(json: ServeCommand.read(path)) }
    }

    /// Opens the database.
    ///
    /// - Throws: ``ConfigurationError``, also if no database is named.
    func open(_ tables: IdentityDatabase.Tables = .required) async throws -> any SQLDatabase {
        let limits = try serverConfiguration()?.database
        let standard = ProcessInfo.processInfo.environment[ServeCommand.databaseVariable]
        guard database != nil || limits?.address != nil || standard != nil else {
            throw ConfigurationError(
                "no database is named",
                "Use --database, or --config with the member database.address, or set \(ServeCommand.databaseVariable)."
            )
        }
        return try await IdentityDatabase.open(
            location: database, configuration: limits, standard: standard, tables: tables)
    }

    /// The keys that sign ID tokens.
    func signingKeys(_ cipher: SigningKeyCipher? = nil) async throws -> SigningKeyStore {
        let database = try await open()
        return SigningKeyStore(database: database, clock: database.clock, cipher: cipher)
    }

    func administration() async throws -> Administration {
        Administration(database: try await open())
    }
}

/// The key file that encrypts the signing keys in the database.
struct SigningKeyOption: ParsableArguments {
    static let variable = "LATCHKEY_IDENTITY_SIGNING_KEY_FILE"

    @Option(
        help: """
            The file whose bytes, 32 to 4096, encrypt the keys that sign ID tokens in the database. Required with PostgreSQL. \
            Default: the file that \(SigningKeyOption.variable) names.
            """)
    var signingKeyFile: String?

    /// - Throws: ``ConfigurationError`` if the file cannot be used.
    func cipher() throws -> SigningKeyCipher? {
        try (signingKeyFile ?? ProcessInfo.processInfo.environment[Self.variable]).map { path in
            try SigningKeyCipher(path: path)
        }
    }
}
