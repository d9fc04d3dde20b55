import Foundation
import LatchkeyPostgreSQL
import LatchkeyRelyingParty
import LatchkeySQLite
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

/// The program on a database without the tables of this version, or without the right to change them.
@Suite("Missing tables") struct MissingTablesTests {
    private static let none =
        "the database contains no tables of this program. Check its address, or create the tables with: "
        + "latchkey-identity migrate"
    private static let newer =
        "the tables of the database are those of a newer or another program (identity 2). Use the version of "
        + "latchkey-identity that made them."

    /// The commands that neither create nor change tables.
    private static func commands(_ directory: TemporaryDirectory) throws -> [[String]] {
        let config = directory.path(of: "config.json")
        try Data(#"{"clients": [{"client_id": "a", "redirect_uris": ["a.b:/"]}]}"#.utf8).write(
            to: URL(filePath: config))
        let file = try IdentityProcess.signingKeyFile(in: directory)
        return [
            ["serve", "--port", "0", "--config", config, "--signing-key-file", file],
            ["users", "add", "alice"], ["devices", "list", "--user", "alice"],
            ["devices", "revoke", "x"],
        ]
    }

    private static func run(_ arguments: [String]) async throws -> SystemProgram.Outcome {
        try await SystemProgram(IdentityProcess.program).result(
            of: arguments, input: Array("a good password\n".utf8))
    }

    private static func expectRefusal(_ command: [String], _ location: String, _ message: String)
        async throws
    {
        let outcome = try await run(command + ["--database", location])
        let status: Int32 = command[0] == "serve" ? 2 : 1
        #expect(outcome.status == status && outcome.output.isEmpty, "\(command): \(outcome.text)")
        #expect(outcome.errors.hasSuffix("\(message)\n"), "\(command): \(outcome.text)")
    }

    @Test func `commands do not create a missing SQLite file or its tables`() async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let path = directory.path(of: "identity.sqlite")
            for command in try Self.commands(directory) {
                try await Self.expectRefusal(
                    command, path,
                    "the database \(path) does not exist. Check the path. Create a new database with: "
                        + "latchkey-identity migrate --database \(path)")
                #expect(!FileManager.default.fileExists(atPath: path))
            }
            _ = try SQLiteDatabase(path: path, creating: true)
            for command in try Self.commands(directory) {
                try await Self.expectRefusal(command, path, Self.none)
            }
            #expect(try await Self.run(["migrate", "--database", path]).status == 0)
            #expect(
                try await Self.run(["users", "add", "alice", "--database", path]).status == 0)
        }
    }

    @Test func `the tables of a newer version are refused by all commands`() async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let path = directory.path(of: "identity.sqlite")
            let next = SQLMigration(
                "identity 2", sqlite: "CREATE TABLE more (n INTEGER)", postgreSQL: "")
            try await SQLiteDatabase(path: path, creating: true).migrate(
                IdentitySchema.migrations + [next])
            for command in try Self.commands(directory) + [["migrate"]] {
                try await Self.expectRefusal(command, path, Self.newer)
            }
        }
    }

    @Test func `the address of another database engine is not a path`() async throws {
        try await Self.expectRefusal(
            ["migrate"], "mysql://db.example.com/latchkey",
            "the address of the database does not begin with postgresql://. Use postgresql://HOST/DATABASE, or the path "
                + "of a SQLite file.")
        try await Self.expectRefusal(
            ["migrate"], "postgresql://user:secret@db.example.com/latchkey",
            "the address of the database contains a password. Remove it, and store the password in a file that the "
                + "environment variable PGPASSFILE names.")
        try await Self.expectRefusal(
            ["migrate"], "postgresql://?service=mine",
            "the database is named by a service of libpq, whose file is not checked. Remove the parameter ‘service’ "
                + "and the environment variable PGSERVICE, and write the host and the database into the address."
        )
    }

    @Test(.enabled(if: PostgreSQLServer.isInstalled, "needs the package postgresql"))
    func `a role that can only read and write rows serves, and creates nothing`() async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let owner = try await PostgreSQLServer.shared.database()
            let role = owner.replacing("user=latchkey", with: "user=clerk")
            try await PostgreSQLServer.shared.psql(
                owner,
                """
                DO 'BEGIN CREATE ROLE clerk LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END';
                ALTER DEFAULT PRIVILEGES IN SCHEMA public
                    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO clerk;
                """)
            let commands = try Self.commands(directory)
            for command in commands { try await Self.expectRefusal(command, role, Self.none) }
            let refused = try await Self.run(["migrate", "--database", role])
            #expect(refused.status == 1 && refused.errors.contains("permission denied"))

            #expect(try await Self.run(["migrate", "--database", owner]).status == 0)
            let rights = { (words: String) in
                try await PostgreSQLServer.shared.psql(
                    owner,
                    "\(words) SELECT ON ALL TABLES IN SCHEMA public \(words == "GRANT" ? "TO" : "FROM") clerk;"
                )
            }
            _ = try await rights("REVOKE")
            for command in commands {
                try await Self.expectRefusal(
                    command, role,
                    "Run the migrations as the owner of the tables, who grants this role SELECT, INSERT, UPDATE and DELETE on them."
                )
            }
            _ = try await rights("GRANT")
            let added = try await Self.run(["users", "add", "bob", "--database", role])
            #expect(added.status == 0, "\(added.text)")
            let server = try await IdentityProcess(
                Array(commands[0].dropFirst()) + ["--database", role])
            let login = try await TestServer.lend(
                server, database: owner, cipher: SigningKeyCipher.test()
            ) { server in
                try await TestBrowser(server: server).loginToSettings("alice").status
            }
            #expect(login == 303)
            #expect(await server.stop() == 0)
        }
    }
}
