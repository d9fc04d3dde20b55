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

    @Test(arguments: [SIGTERM, SIGKILL]) func `a database outlives the program`(signal: Int32)
        async throws
    {
        try await TemporaryDirectory.withDirectory { directory in
            let config = directory.path(of: "config.json")
            try Data(
                #"""
                {"clients": [{"client_id": "app", "redirect_uris": ["http://127.0.0.1/callback"]}],
                 "identity": {"biometric": {"list_enabled": true}}, "extensions": {"biometric_audience": false}}
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

    @Test(arguments: [
        ("{}", "clients: missing. Register a client: {"),
        ("nonsense", "the file is not valid JSON"),
        ("[]", "the file is not a JSON object"),
        (#"{"clients": []}"#, "at least one client is required. Register one: {"),
        (#"{"clients": [{"redirect_uris": []}]}"#, "clients.0.client_id: missing"),
        (
            #"{"clients": [{"client_id": "a"}], "rate_limits": {"token_per_address": "x"}}"#,
            "rate_limits.token_per_address: of the wrong type"
        ),
        (
            #"{"clients": [{"client_id": "a", "redirect_uris": ["/relative"]}]}"#,
            "not an absolute URI"
        ),
        (
            #"{"clients": [{"client_id": "a", "x_application_type": "toaster"}]}"#,
            "clients.0.x_application_type"
        ),
        (#"{"clients": [{"client_id": "a"}, {"client_id": "a"}]}"#, "same client_id"),
        (
            #"{"clients": [{"client_id": "a"}], "rate_limits": {"token_per_address": 0}}"#,
            "at least 1"
        ),
        (
            #"{"clients": [{"client_id": "a"}], "attestaton": {"require": "presence"}}"#,
            "Could not start the server: attestaton: unknown member. Use one of: attestation, authentication, clients, "
        ),
    ])
    func `an invalid configuration is reported`(json: String, message: String) async throws {
        try await inDirectory { directory in
            let config = directory.appending(path: "config.json")
            try Data(json.utf8).write(to: config)
            let result = try await Self.runProgram([
                "serve", "--config", config.path(), "--port", "0", "--database", ":memory:",
            ])
            #expect(result.status == 1)
            #expect(result.output.isEmpty)
            #expect(result.errors.contains(message), "\(result.errors)")
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

    @Test func `a configuration file keeps the defaults of members that are absent or null`() throws
    {
        let json = #"""
            {"clients": [{"client_id": "a", "name": null, "access_token_lifetime_seconds": 60}],
             "identity": {"biometric": {"list_enabled": true}}, "project": null, "extensions": {"locker": {}}}
            """#
        let configuration = try ServerConfiguration(json: Data(json.utf8))
        #expect(configuration.project == "latchkey" && configuration.publicOrigin == nil)
        #expect(
            configuration.identity.biometric.listEnabled
                && configuration.identity.biometric.maximumDevices == 100)
        #expect(
            configuration.clients[0].accessTokenLifetime == 60
                && configuration.clients[0].rotatesRefreshTokens)
        #expect(
            configuration.clients[0].refreshTokenLifetime == 364 * 86_400
                && configuration.clients[0].name == nil)
        #expect(configuration.extensions.locker.backgroundScopes == ["openid", "profile"])
    }

    @Test(
        arguments: [
            (#""attestaton": null"#, "attestaton", nil),
            (#""publicOrigin": "https://id.example.com""#, "publicOrigin", nil),
            (#""authentication": {"identity": []}"#, "authentication.identity", "identities"),
            (#""identity": {"biometrics": {}}"#, "identity.biometrics", "biometric"),
            (
                #""identity": {"biometric": {"disable": true}}"#, "identity.biometric.disable",
                "disabled, list_enabled, maximum_devices"
            ),
            (#""rate_limits": {"tokens_per_address": 1}"#, "rate_limits.tokens_per_address", nil),
            (
                #""extensions": {"locker": {"enable": false}}"#, "extensions.locker.enable",
                "background_scopes, enabled, level_shares, maximum_enrolments"
            ),
            (
                #""attestation": {"requires": "presence", "tpm_anchors": ["/a"]}"#,
                "attestation.requires", nil
            ),
            (
                #""clients": [{"client_id": "a"}, {"client_id": "b", "redirect_uri": "x"}]"#,
                "clients.1.redirect_uri",
                nil
            ),
        ] as [(String, String, String?)])
    func `a member that is not a setting is refused at each level`(
        member: String, path: String, settings: String?
    ) {
        let clients = member.contains("clients") ? "" : #""clients": [{"client_id": "a"}], "#
        let error = #expect(throws: ConfigurationError.self) {
            try ServerConfiguration(json: Data("{\(clients)\(member)}".utf8))
        }
        let (cause, description) = (
            "\(path): unknown member. Use one of: ", error?.description ?? ""
        )
        #expect(description.hasPrefix(cause), "\(description)")
        if let settings { #expect(description == cause + settings + ".") }
    }

    @Test func `all members are known, also those without a default`() throws {
        let json = #"""
            {"project": "p", "public_origin": "https://id.example.com", "trusted_proxies": ["127.0.0.1"],
             "authentication": {"identities": ["login_id"]},
             "identity": {"biometric": {"list_enabled": true, "disabled": true, "maximum_devices": 1}},
             "clients": [{"client_id": "a", "x_application_type": "native", "name": "A", "redirect_uris": ["a:/"],
                          "post_logout_redirect_uris": ["a:/"], "access_token_lifetime_seconds": 1,
                          "refresh_token_lifetime_seconds": 1, "refresh_token_idle_timeout_seconds": 1,
                          "refresh_token_rotation_enabled": false, "attestation_require": "none"}],
             "rate_limits": {"token_per_address": 1, "challenge_per_address": 1},
             "extensions": {"biometric_removal": false, "biometric_login_hint": false, "biometric_audience": false,
                            "locker": {"enabled": false, "level_shares": false, "background_scopes": ["openid"],
                                       "maximum_enrolments": 1}},
             "id_token_signing_alg": "RS256",
             "attestation": {"require": "none", "tpm_anchors": ["/a"], "piv_anchors": [], "simulated_anchors": [],
                             "accept_simulated": false, "approval_keys": "enrolled", "certificate_days": 1,
                             "maximum_reuse_seconds": 1, "keep_endorsement": "hash", "broker_token_digest": ""}}
            """#
        let configuration = try ServerConfiguration(json: Data(json.utf8))
        #expect(
            configuration.publicOrigin == "https://id.example.com"
                && configuration.clients[0].name == "A")
        #expect(
            configuration.clients[0].attestationRequire == "none"
                && configuration.attestation != nil)
    }

    @Test func `without a database, only the demo starts`() async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let config = directory.path(of: "config.json")
            try Data(#"{"clients": [{"client_id": "app"}]}"#.utf8).write(
                to: URL(filePath: config))
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
            try Data(#"{"clients": [{"client_id": "app"}]}"#.utf8).write(
                to: URL(filePath: config))
            let refused = try await Self.runProgram(["serve"] + arguments)
            #expect(refused.status == 1 && refused.output.isEmpty)
            #expect(refused.errors.contains("Set public_origin in the configuration"))
            try Data(
                #"{"clients": [{"client_id": "app"}], "public_origin": "https://id.example.com"}"#
                    .utf8
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
