import Foundation
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// `latchkey-identity` and a PostgreSQL server that it reaches over TCP.
@Suite(
    .requires(program: "openssl"),
    .enabled(if: PostgreSQLServer.isInstalled, "needs the package postgresql"))
struct PostgreSQLCertificateTests {
    private static let password = "correct-horse-postgresql"

    /// An address of this machine for one test, with the usual port.
    private static func loopback() -> String {
        "127." + (0..<3).map { _ in String(Int.random(in: 1...250)) }.joined(separator: ".")
    }

    /// Writes a key and a certificate for `localhost` that it signed itself.
    ///
    /// - Returns: The path of the certificate; the key's has the suffix `.key`.
    private static func certificate(_ name: String, in directory: TemporaryDirectory) async throws
        -> String
    {
        let path = directory.path(of: name)
        try await SystemProgram("openssl").require([
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-days", "2",
            "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout",
            path + ".key", "-out",
            path,
        ])
        try PostgreSQLServer.give(path + ".key")
        return path
    }

    /// Runs `body` with a server at a loopback address and a database with a user that has a
    /// password.
    private static func withServer(
        _ settings: [String: String],
        _ body: (_ address: String, _ database: String) async throws -> Void
    ) async throws {
        let address = loopback()
        let server = PostgreSQLServer(settings.merging(["listen_addresses": address]) { $1 })
        try await withDatabase(server) { local in
            try await server.psql(local, "ALTER USER latchkey PASSWORD '\(password)'")
            let database = try #require(URL(string: local)?.path)
            try await body(address, database)
        }
    }

    @Test func `only a database server with a trusted certificate for its name is used`()
        async throws
    {
        let directory = try TemporaryDirectory()
        defer { withExtendedLifetime(directory) {} }
        // The user of PostgreSQL reads the certificate and the key.
        try FileManager.default.setAttributes(
            [.posixPermissions: 0o755], ofItemAtPath: directory.path)
        let own = try await Self.certificate("own.pem", in: directory)
        let other = try await Self.certificate("other.pem", in: directory)
        let passwords = directory.path(of: "pgpass")
        try Data("*:*:*:latchkey:\(Self.password)\n".utf8).write(to: URL(filePath: passwords))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: passwords)

        /// Lets the program connect to a host name at an address.
        @Sendable func migrate(
            _ database: String, host: String, at address: String, trusting root: String
        ) async throws -> SystemProgram.Outcome {
            let program = try SystemProgram(
                IdentityProcess.program, environment: ["PGPASSFILE": passwords])
            return try await program.result(of: [
                "migrate", "--database",
                "postgresql://\(host)\(database)?hostaddr=\(address)&user=latchkey&sslrootcert=\(root)",
            ])
        }

        let settings = ["ssl": "on", "ssl_cert_file": own, "ssl_key_file": own + ".key"]
        try await Self.withServer(settings) { address, database in
            let accepted = try await migrate(
                database, host: "localhost", at: address, trusting: own)
            #expect(accepted.status == 0, "the control: \(accepted.text)")
            for file in [own, passwords] {
                let attributes = try FileManager.default.attributesOfItem(atPath: file)
                try FileManager.default.setAttributes(
                    [.posixPermissions: 0o666], ofItemAtPath: file)
                let writable = try await migrate(
                    database, host: "localhost", at: address, trusting: own)
                #expect(writable.status == 1)
                #expect(
                    writable.errors.contains(
                        "the file \(file) cannot be used: other users can write \(file)"),
                    "\(writable.text)")
                try FileManager.default.setAttributes(
                    [.posixPermissions: attributes[.posixPermissions] ?? 0], ofItemAtPath: file)
            }
            async let authority = migrate(database, host: "localhost", at: address, trusting: other)
            async let name = migrate(database, host: "db.example.com", at: address, trusting: own)
            for (outcome, cause) in [
                (try await authority, "certificate verify failed"),
                (
                    try await name,
                    #"server certificate for "localhost" does not match host name "db.example.com""#
                ),
            ] {
                try Self.expectRefusal(outcome, cause)
            }
        }
        try await Self.withServer([:]) { address, database in
            let outcome = try await migrate(database, host: "localhost", at: address, trusting: own)
            try Self.expectRefusal(outcome, "server does not support SSL, but SSL was required")
        }
    }

    private static func expectRefusal(_ outcome: SystemProgram.Outcome, _ cause: String) throws {
        #expect(outcome.status == 1, "\(outcome.text)")
        #expect(outcome.errors.contains("the database cannot be used"), "\(outcome.text)")
        #expect(outcome.errors.contains(cause), "\(outcome.text)")
        #expect(!outcome.text.contains(password))
    }
}
