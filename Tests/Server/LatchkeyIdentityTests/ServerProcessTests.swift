import Foundation
import HTTPTypes
import Latchkey
import LatchkeyOAuth
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

@Suite("The program") struct ServerProcessTests {
    @Test func `the demo prints its address and its users, and stops on SIGTERM`() async throws {
        let server = try await IdentityProcess(["--demo"])
        #expect(server.endpoint.hasPrefix("http://127.0.0.1:"))
        #expect(server.clientID == "latchkey-demo")
        #expect(server.users.count >= 2)
        let endpoint = try #require(Endpoint(server.endpoint + "/.well-known/openid-configuration"))
        let (_, body) = try await CurlTransport().send(endpoint.request(.get), body: [])
        #expect(String(decoding: body, as: UTF8.self).contains("\"issuer\":\"\(server.endpoint)\""))
        #expect(await server.stop() == 0)
    }

    @Test func `a client cannot send control characters to a terminal that shows the log`()
        async throws
    {
        let server = try await IdentityProcess(["--demo"])
        let endpoint = try #require(
            Endpoint(
                server.endpoint + "/oauth2/authorize?client_id=evil%E2%80%AE%C2%9B2J%0Aexample"))
        let (response, _) = try await CurlTransport().send(endpoint.request(.get), body: [])
        #expect(response.status.code == 400)
        await server.stop()
        let log = await server.log
        #expect(log.contains("evil") && log.contains("example"), "\(log)")
        for line in log.split(separator: "\n") {
            #expect(!line.unicodeScalars.contains { !$0.isVisible }, "\(line)")
        }
        #expect(
            log.split(separator: "\n").count { $0.contains("example") && !$0.contains("evil") } == 0
        )
    }

    @Test(arguments: [SIGTERM, SIGKILL]) func `a database outlives the program`(signal: Int32)
        async throws
    {
        try await TemporaryDirectory.withDirectory { directory in
            let config = directory.path(of: "config.json")
            try Data(
                #"""
                {"clients": [{"client_id": "app", "redirect_uris": ["http://127.0.0.1/callback"]}],
                 "identity": {"biometric": {"list_enabled": true}}}
                """#.utf8
            ).write(to: URL(filePath: config))
            let (database, storage) = try await IdentityProcess.storage(in: directory)
            let arguments = ["--config", config, "--port", "0"] + storage

            let device = TestDevice()
            let first = try await IdentityProcess(arguments)
            #expect(first.users.isEmpty)
            let (tokens, challenge, keys) = try await TestServer.lend(first, database: database) {
                server in
                let tokens = try await server.login()
                try await server.setUp(device, bearer: tokens.access).success()
                return (
                    tokens, try await server.challenge(),
                    try await server.send(.get, "/oauth2/jwks").body
                )
            }
            #expect(await first.stop(signal) == (signal == SIGTERM ? 0 : SIGKILL))

            let second = try await IdentityProcess(arguments)
            try await TestServer.lend(second, database: database) { server in
                #expect(try await server.send(.get, "/oauth2/jwks").body == keys)
                try await server.userInfo(tokens.access).success()
                try await server.refresh(#require(tokens.refresh)).success()
                try await server.biometric(
                    device.authentication(challenge: challenge, now: server.time.seconds)
                ).success()
            }
            #expect(await second.stop() == 0)

            guard !PostgreSQLServer.isSelected else { return }
            let mode =
                try FileManager.default.attributesOfItem(atPath: database)[.posixPermissions]
                as? Int
            #expect(mode == 0o600)
            let files = try FileManager.default.contentsOfDirectory(
                at: directory.url, includingPropertiesForKeys: nil)
            for secret in [
                tokens.access, try #require(tokens.refresh), TestServer.password, challenge,
            ] {
                for file in files {
                    #expect(
                        try Data(contentsOf: file).range(of: Data(secret.utf8)) == nil,
                        "\(file.lastPathComponent)")
                }
            }
        }
    }

    @Test(
        arguments: [
            ("{}", ["clients: at least one client is required. Register one: {"]),
            ("nonsense", ["the file is not valid JSON. Check its syntax"]),
            (
                #"{"clients": [{"client_id": "a"},]}"#,
                ["the file is not valid JSON. Check its syntax"]
            ),
            ("[]", ["the file is not a JSON object, but a list. Write at least: {"]),
            (
                #"{"clients": [{"redirect_uri": "x"}], "identity": {"biometric": {"disabled": "x"}}, "attestaton": {}}"#,
                [
                    "attestaton: unknown member. Use one of: attestation, clients, ",
                    "clients.0.redirect_uri: unknown member. Use one of: ",
                    "identity.biometric.disabled: must be true or false, and is a text. Correct the configuration.",
                    "clients.0.client_id: must have 1 to 200 bytes, and has 0. ",
                    "clients.0.redirect_uris: no user can log in without a redirect address. ",
                ]
            ),
        ] as [(String, [String])])
    func `an invalid configuration is reported, with all mistakes`(json: String, messages: [String])
        async throws
    {
        try await inDirectory { directory in
            let config = directory.appending(path: "config.json")
            try Data(json.utf8).write(to: config)
            let result = try await Self.runProgram([
                "serve", "--config", config.path(), "--port", "0", "--database", ":memory:",
            ])
            #expect(result.status == 2)
            #expect(result.output.isEmpty)
            for message in messages {
                #expect(
                    result.errors.contains("Could not start the server: \(message)"),
                    "\(result.errors)")
            }
        }
    }

    @Test func `an address in use is reported with the next step`() async throws {
        let server = try await IdentityProcess(["--demo"])
        let port = server.port
        let second = try await Self.runProgram(["serve", "--demo", "--port", port])
        #expect(second.status == 1 && second.output.isEmpty)
        let sentence =
            "Could not start the server: the address 127.0.0.1:\(port) is in use by another program. Stop"
        #expect(second.errors.contains(sentence), "\(second.errors)")
        #expect(await server.stop() == 0)
    }

    @Test func `without a database, only the demo starts`() async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let config = directory.path(of: "config.json")
            try Data(Self.minimum.utf8).write(to: URL(filePath: config))
            let refused = try await Self.runProgram(["serve", "--config", config, "--port", "0"])
            #expect(refused.status == 64 && refused.output.isEmpty)
            #expect(refused.errors.contains("Name a database with --database: "))
            let server = try await IdentityProcess([
                "--config", config, "--port", "0", "--database", ":memory:",
            ])
            #expect(await server.stop() == 0)
        }
    }

    @Test func `clients of another address than loopback need its public origin`() async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let config = directory.path(of: "config.json")
            let arguments = [
                "--config", config, "--host", "0.0.0.0", "--port", "0", "--database", ":memory:",
            ]
            try Data(Self.minimum.utf8).write(to: URL(filePath: config))
            let refused = try await Self.runProgram(["serve"] + arguments)
            #expect(refused.status == 2 && refused.output.isEmpty)
            #expect(refused.errors.contains("Set public_origin in the configuration"))
            try Data(
                #"{"public_origin": "https://id.example.com", \#(Self.minimum.dropFirst())"#.utf8
            ).write(to: URL(filePath: config))
            let server = try await IdentityProcess(arguments)
            #expect(server.endpoint == "https://id.example.com")
            #expect(await server.stop() == 0)
        }
    }

    @Test func `the demo listens on loopback only`() async throws {
        let result = try await Self.runProgram(["serve", "--demo", "--host", "0.0.0.0"])
        #expect(result.status == 64)
        #expect(result.errors.contains("loopback only"))
    }

    // MARK: Helpers

    private static let minimum =
        #"{"clients": [{"client_id": "app", "redirect_uris": ["http://127.0.0.1/callback"]}]}"#

    private static func runProgram(_ arguments: [String], input: String = "") async throws
        -> SystemProgram.Outcome
    {
        try await SystemProgram(IdentityProcess.program).result(
            of: arguments, input: Array(input.utf8))
    }

    private func inDirectory(_ body: (URL) async throws -> Void) async throws {
        let directory = FileManager.default.temporaryDirectory.appending(
            path: "identity-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        try await body(directory)
    }
}
