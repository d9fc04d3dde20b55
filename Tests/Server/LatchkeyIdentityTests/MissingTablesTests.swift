import Foundation
import GRDB
import LatchkeyPostgreSQL
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

/// The commands of an administrator on a database without the tables of this version, and how they
/// find the database.
@Suite("Missing tables") struct MissingTablesTests {
    private static let empty =
        "the database contains no tables of latchkey-identity. Check its address, or create the tables with: "
        + "latchkey-identity migrate"
    private static let older =
        "the tables of the database are those of an earlier version. Change them with: latchkey-identity migrate"

    /// The commands that neither create nor change tables.
    private static let commands = [
        ["check"], ["users", "list"], ["users", "disable", "alice"], ["users", "enable", "alice"],
        ["devices", "list"],
        ["devices", "revoke", "x"], ["approval-keys", "list"], ["audit"], ["signing-keys", "list"],
        ["signing-keys", "rotate"], ["signing-keys", "remove", "x"],
    ]

    private static func run(
        _ arguments: [String], environment: [String: String] = [:], input: String = ""
    ) async throws -> SystemProgram.Outcome {
        try await SystemProgram(IdentityProcess.program, environment: environment).result(
            of: arguments, input: Array(input.utf8))
    }

    private static func expectRefusal(_ outcome: SystemProgram.Outcome, _ message: String) {
        #expect(outcome.status == 1 && outcome.output.isEmpty, "\(outcome.text)")
        #expect(outcome.errors == "Error: \(message)\n")
    }

    @Test(arguments: commands) func `a command does not create a missing SQLite file`(
        command: [String]
    ) async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let path = directory.path(of: "identity.sqlite")
            Self.expectRefusal(
                try await Self.run(command + ["--database", path]),
                "the database \(path) does not exist. Check the path, or create the database with: latchkey-identity migrate"
            )
            #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path).isEmpty)
        }
    }

    @Test func `check changes neither an empty SQLite file nor the tables of an earlier version`()
        async throws
    {
        try await TemporaryDirectory.withDirectory { directory in
            let path = directory.path(of: "identity.sqlite")
            try #require(
                FileManager.default.createFile(
                    atPath: path, contents: nil, attributes: [.posixPermissions: 0o600]))
            Self.expectRefusal(try await Self.run(["check", "--database", path]), Self.empty)
            #expect(try Data(contentsOf: URL(filePath: path)).isEmpty)

            let earlier = Array(IdentitySchema.migrations.dropLast())
            try await SQLiteDatabase(DatabaseQueue(path: path)).migrate(earlier)
            let before = try Data(contentsOf: URL(filePath: path))
            Self.expectRefusal(try await Self.run(["check", "--database", path]), Self.older)
            #expect(try Data(contentsOf: URL(filePath: path)) == before)

            #expect(try await Self.run(["migrate", "--database", path]).status == 0)
            let checked = try await Self.run(["check", "--database", path])
            #expect(checked.output.contains(#""users":0"#), "\(checked.text)")
        }
    }

    @Test func `users add creates the tables`() async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let path = directory.path(of: "identity.sqlite")
            let added = try await Self.run(
                ["users", "add", "alice", "--database", path], input: "a good password\n")
            #expect(added.status == 0, "\(added.text)")
            let listed = try await Self.run(["users", "list", "--database", path])
            #expect(listed.output.contains(#""username":"alice""#), "\(listed.text)")
        }
    }

    @Test func `the address of another database engine is not a path`() async throws {
        for command in [["migrate"], ["check"]] {
            Self.expectRefusal(
                try await Self.run(command + ["--database", "mysql://db.example.com/latchkey"]),
                "the address of the database does not begin with postgresql://. Use postgresql://HOST/DATABASE, or the path "
                    + "of a SQLite file.")
        }
    }

    @Test func `a command uses the database that the environment names`() async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let config = directory.path(of: "config.json")
            try Data(#"{"clients": [{"client_id": "a"}]}"#.utf8).write(to: URL(filePath: config))
            Self.expectRefusal(
                try await Self.run(["check", "--config", config]),
                "no database is named. Use --database, or --config with the member database.address, or set "
                    + "LATCHKEY_IDENTITY_DATABASE.")
            let environment = [ServeCommand.databaseVariable: directory.path(of: "identity.sqlite")]
            #expect(try await Self.run(["migrate"], environment: environment).status == 0)
            let checked = try await Self.run(
                ["check", "--config", config], environment: environment)
            #expect(checked.output.contains(#""users":0"#), "\(checked.text)")
            #expect(try await Self.run(["users", "list"], environment: environment).status == 0)
        }
    }

    @Test(.enabled(if: PostgreSQLServer.isInstalled, "needs the package postgresql"))
    func `the database of the configuration is used, and check creates no tables in PostgreSQL`()
        async throws
    {
        try await TemporaryDirectory.withDirectory { directory in
            let address = try await PostgreSQLServer.shared.database()
            let config = directory.path(of: "config.json")
            try Data(
                #"{"clients": [{"client_id": "a"}], "database": {"address": "\#(address)"}}"#.utf8
            )
            .write(to: URL(filePath: config))
            Self.expectRefusal(try await Self.run(["check", "--config", config]), Self.empty)
            let database = try PostgreSQLDatabase(PostgreSQLConfiguration(address: address))
            let tables = try await database.read { database in
                try database.rows("SELECT 1 FROM pg_tables WHERE schemaname = 'public'").count
            }
            #expect(tables == 0)

            try await database.migrate(Array(IdentitySchema.migrations.dropLast()))
            Self.expectRefusal(try await Self.run(["check", "--config", config]), Self.older)
            #expect(try await Self.run(["migrate", "--config", config]).status == 0)
            let checked = try await Self.run(["check", "--config", config])
            #expect(checked.output.contains(#""dialect":"PostgreSQL""#), "\(checked.text)")
        }
    }
}
