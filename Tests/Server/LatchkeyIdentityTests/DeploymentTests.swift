import Foundation
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

/// The database that a deployed server uses, and the files of the systemd service and the image.
@Suite("Deployment") struct DeploymentTests {
    private static func file(_ path: String) throws -> [Substring] {
        let url = BuiltProduct.packageFolder.appending(path: "packaging").appending(path: path)
        return try String(contentsOf: url, encoding: .utf8).split(separator: "\n")
    }

    @Test func `a database in the option and in the configuration is refused`() async throws {
        try await TemporaryDirectory.withDirectory { directory in
            var configuration = DatabaseConfiguration()
            configuration.address = "postgresql://db.example.com/latchkey"
            for location in [
                directory.path(of: "identity.sqlite"), "postgresql://other.example.com/latchkey",
            ] {
                let error = await #expect(throws: ConfigurationError.self) {
                    try await IdentityDatabase.open(
                        location: location, configuration: configuration)
                }
                #expect(
                    error?.description
                        == "the option --database and the member database.address of the configuration each name a "
                        + "database. Remove one of them.")
            }
            #expect(!FileManager.default.fileExists(atPath: directory.path(of: "identity.sqlite")))
        }
    }

    @Test func `an address with a password is refused in complete sentences`() async throws {
        let error = await #expect(throws: ConfigurationError.self) {
            try await IdentityDatabase.open(
                location: "postgresql://user:secret@db.example.com/latchkey")
        }
        #expect(
            error?.description
                == "the address of the database contains a password. Remove it, and store the password in a file that the "
                + "environment variable PGPASSFILE names.")
    }

    @Test func `the database of the environment is used without another one`() async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let path = directory.path(of: "identity.sqlite")
            let database = try await IdentityDatabase.open(
                location: nil, configuration: DatabaseConfiguration(), standard: path)
            #expect(database.dialect == .sqlite && FileManager.default.fileExists(atPath: path))
            let other = directory.path(of: "other.sqlite")
            _ = try await IdentityDatabase.open(location: other, standard: path)
            #expect(FileManager.default.fileExists(atPath: other))
        }
    }

    @Test func `the unit and the image do not replace the configured database`() throws {
        for path in ["systemd/latchkey-identity.service", "Containerfile"] {
            let lines = try Self.file(path).filter { !$0.hasPrefix("#") }
            #expect(!lines.contains { $0.contains("--database") }, "\(path)")
            #expect(
                lines.contains { $0.contains("\(ServeCommand.databaseVariable)=/var/lib/") },
                "\(path)")
        }
    }

    @Test func `the unit runs as a user that sysusers.d creates`() throws {
        let unit = try Self.file("systemd/latchkey-identity.service")
        #expect(
            unit.contains("User=latchkey-identity")
                && !unit.contains { $0.hasPrefix("DynamicUser") })
        let users = try Self.file("sysusers.d/latchkey-identity.conf")
        #expect(users.contains { $0.hasPrefix("u latchkey-identity ") })
        let installed = try Self.file("files")
        #expect(installed.contains { $0.hasSuffix(" sysusers.d/latchkey-identity.conf") })
    }
}
