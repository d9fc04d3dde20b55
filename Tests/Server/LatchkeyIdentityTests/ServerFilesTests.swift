import Foundation
import Glibc
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

/// The files of the real program that another user of the machine could change.
@Suite("Files of the program") struct ServerFilesTests {
    private static let isRoot = geteuid() == 0

    /// The files and directories of a server.
    private struct Files {
        let arguments: [String]
        let config: String
        let key: String
        let database: String
        /// The directories of the anchors and the certificate.
        let anchors: [String]
        /// The directory that contains all files.
        let folder: String

        var all: [String] { [config, key, database, folder] + anchors }

        init(in directory: TemporaryDirectory) async throws {
            folder = directory.path(of: "server")
            try #require(mkdir(folder, 0o755) == 0)
            let anchors = try TestTPM().anchors(in: directory)
            let path = folder + "/anchors"
            try FileManager.default.moveItem(atPath: anchors, toPath: path)
            let roots = path + "/tpm/roots"
            self.anchors = [path, path + "/tpm", roots, roots + "/maker.der"]
            config = folder + "/config.json"
            try Data(
                #"""
                {"clients": [{"client_id": "app", "redirect_uris": ["http://127.0.0.1/callback"]}],
                 "attestation": {"require": "hardware", "anchors": "\#(path)"}}
                """#.utf8
            ).write(to: URL(filePath: config))
            key = folder + "/key"
            try Data(repeating: 7, count: 32).write(to: URL(filePath: key))
            try #require(chmod(key, 0o600) == 0)
            database = folder + "/identity.sqlite"
            let result = try await SystemProgram(IdentityProcess.program).result(
                of: ["migrate", "--database", database])
            try #require(result.isSuccess, "\(result.text)")
            arguments = [
                "--config", config, "--signing-key-file", key, "--database", database, "--port",
                "0",
            ]
        }

        func expectRefusal(
            of place: String, _ words: String, sourceLocation: SourceLocation = #_sourceLocation
        ) async throws {
            let result = try await SystemProgram(IdentityProcess.program).result(
                of: ["serve"] + arguments)
            #expect(result.status == 2 && result.output.isEmpty, sourceLocation: sourceLocation)
            #expect(
                result.errors.contains("Could not start the server: ")
                    && result.errors.contains(words) && result.errors.contains(place),
                "\(place): \(result.errors)", sourceLocation: sourceLocation)
        }
    }

    @Test(arguments: [0o666, 0o664, 0o777] as [mode_t])
    func `a server does not start with files that another user can write`(mode: mode_t)
        async throws
    {
        try await TemporaryDirectory.withDirectory { directory in
            let files = try await Files(in: directory)
            for place in files.all {
                let attributes = try FileManager.default.attributesOfItem(atPath: place)
                let before = try #require(attributes[.posixPermissions] as? NSNumber)
                let isDirectory = attributes[.type] as? FileAttributeType == .typeDirectory
                try #require(chmod(place, isDirectory ? mode | 0o111 : mode) == 0)
                let words =
                    switch place {
                    case files.key: "its group or others have rights to it"
                    case files.database: "is accessible to other users"
                    default: "other users can write \(place)"
                    }
                try await files.expectRefusal(of: place, words)
                try #require(chmod(place, before.uint32Value) == 0)
            }
            let server = try await IdentityProcess(files.arguments)
            #expect(await server.stop() == 0)
        }
    }

    @Test(.enabled(if: isRoot, "giving a file away takes root"))
    func `a server does not start with another user's files`() async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let files = try await Files(in: directory)
            for place in files.all {
                try #require(chown(place, 65_534, 65_534) == 0)
                try await files.expectRefusal(of: place, "belongs to another user")
                try #require(chown(place, 0, 0) == 0)
            }
            let server = try await IdentityProcess(files.arguments)
            #expect(await server.stop() == 0)
        }
    }

    @Test(arguments: ["", "-wal", "-journal"])
    func `a server does not start with a database that has a second name`(suffix: String)
        async throws
    {
        try await TemporaryDirectory.withDirectory { directory in
            let files = try await Files(in: directory)
            let (place, other) = (files.database + suffix, directory.path(of: "other"))
            if suffix.isEmpty {
                try #require(link(place, other) == 0)
            } else {
                unlink(place)
                try Data("precious".utf8).write(to: URL(filePath: other))
                try #require(chmod(other, 0o600) == 0 && link(other, place) == 0)
            }
            try await files.expectRefusal(of: place, "has more than one name")
            if !suffix.isEmpty {
                #expect(try Data(contentsOf: URL(filePath: other)) == Data("precious".utf8))
            }
        }
    }

    @Test func `a configuration with two members of one name is refused`() async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let files = try await Files(in: directory)
            try Data(
                #"""
                {"clients": [{"client_id": "app"}], "public_origin": "a", "\u0070ublic_origin": "b"}
                """#.utf8
            ).write(to: URL(filePath: files.config))
            try await files.expectRefusal(of: "public_origin", "two members have this name")
        }
    }
}
