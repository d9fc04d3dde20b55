import Foundation
import Latchkey
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

@Suite("Attestation, configuration") struct AttestationConfigurationTests {
    private static func configuration(
        _ attestation: String, client: String = "", more: String = ""
    ) throws -> ServerConfiguration {
        try ServerConfiguration(
            json: Data(
                #"{"clients": [{"client_id": "a", "redirect_uris": ["a.b:/"]\#(client)}], "attestation": \#(attestation)\#(more)}"#
                    .utf8))
    }

    @Test func `attestation is off by default, and its members have defaults`() throws {
        #expect(try Self.configuration("null").attestation == nil)
        let least = try #require(try Self.configuration(#"{"anchors": "/a"}"#).attestation)
        #expect(least.require == "none" && least.level == .none)
        #expect(least.anchors == "/a" && !least.acceptSimulated)

        let all = try Self.configuration(
            #"{"require": "finger", "anchors": "/a", "accept_simulated": true}"#,
            client: #", "attestation_require": "touch""#)
        let own = try #require(all.attestation)
        #expect(own.level == .finger && own.acceptSimulated)
        #expect(all.clients[0].attestationRequire == "touch")
    }

    @Test(arguments: [
        (
            #""require": "strong""#,
            "attestation.require: “strong” is not one of none, hardware, presence, finger, touch."
        ),
        (#""require": 1"#, "attestation.require: must be a text, and is an integer."),
        (#""requires": "finger""#, "attestation.requires: unknown member."),
        (#""anchors": """#, "attestation.anchors: there are no trust anchors."),
        (#""anchors": ["/a"]"#, "attestation.anchors: must be a text, and is a list."),
        (#""tpm_anchors": ["/a"]"#, "attestation.tpm_anchors: unknown member."),
        (#""approval_keys": []"#, "attestation.approval_keys: unknown member."),
        (
            #""accept_simulated": "yes""#,
            "attestation.accept_simulated: must be true or false, and is a text."
        ),
    ])
    func `an error names the member and the mistake`(member: String, message: String) throws {
        let anchors = member.hasPrefix(#""anchors"#) ? "" : #""anchors": "/a", "#
        let error = #expect(throws: ConfigurationError.self) {
            try Self.configuration("{\(anchors)\(member)}")
        }
        #expect(error?.description.hasPrefix(message) == true, "\(error?.description ?? "")")
    }

    @Test func `errors outside of the member name their place`() {
        for (attestation, client, more, message) in [
            ("true", "", "", "attestation: must be an object, and is true or false."),
            (
                #"{"anchors": "/a"}"#, #", "attestation_require": "all""#, "",
                "clients.0.attestation_require: “all” is not one of none, hardware, presence, finger, touch."
            ),
            (
                "null", #", "attestation_require": "hardware""#, "",
                "clients.0.attestation_require: there is no member attestation."
            ),
        ] {
            let error = #expect(throws: ConfigurationError.self) {
                try Self.configuration(attestation, client: client, more: more)
            }
            #expect(error?.description.hasPrefix(message) == true, "\(error?.description ?? "")")
        }
    }

    @Test func `an unusable anchor file is a line of the log, and the server starts`() async throws
    {
        try await TemporaryDirectory.withDirectory { directory in
            let anchors = directory.path(of: "anchors")
            try FileManager.default.createDirectory(
                atPath: anchors + "/piv/roots", withIntermediateDirectories: true)
            try AttestationIssuer.generate(name: "Example root", at: Date()).certificate.write(
                to: URL(filePath: anchors + "/piv/roots/root.der"))
            let bad = anchors + "/piv/roots/README.md"
            try Data("roots of 2026".utf8).write(to: URL(filePath: bad))
            let config = directory.path(of: "config.json")
            try Data(
                #"{"clients": [{"client_id": "app", "redirect_uris": ["a.b:/"]}], "attestation": {"anchors": "\#(anchors)"}}"#
                    .utf8
            ).write(to: URL(filePath: config))
            let server = try await IdentityProcess([
                "--config", config, "--port", "0", "--database", ":memory:",
            ])
            #expect(await server.stop() == 0)
            let log = await server.log
            #expect(
                log.contains(
                    "attestation.anchors: \(bad) is not used: its name does not end in .pem"),
                "\(log)")
            #expect(log.contains("1 not used, 1 roots and 0 intermediates left"), "\(log)")
        }
    }

    @Test(arguments: [
        (#""require": "presence""#, "", true),
        (#""require": "none""#, #", "attestation_require": "touch""#, true),
        (#""require": "none""#, "", false),
        (#""require": "presence", "accept_simulated": true"#, "", false),
    ])
    func `a requirement that no key can meet is a line of the log`(
        members: String, client: String, isWarned: Bool
    ) async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let anchors = directory.path(of: "anchors")
            try FileManager.default.createDirectory(
                atPath: anchors + "/simulated/roots", withIntermediateDirectories: true)
            try AttestationIssuer.generate(name: "Example root", at: Date()).certificate.write(
                to: URL(filePath: anchors + "/simulated/roots/root.der"))
            let config = directory.path(of: "config.json")
            try Data(
                #"{"clients": [{"client_id": "app", "redirect_uris": ["a.b:/"]\#(client)}], "attestation": {"anchors": "\#(anchors)", \#(members)}}"#
                    .utf8
            ).write(to: URL(filePath: config))
            let server = try await IdentityProcess([
                "--config", config, "--port", "0", "--database", ":memory:",
            ])
            #expect(await server.stop() == 0)
            let log = await server.log
            #expect(
                log.contains("all roots are of simulators and accept_simulated is false")
                    == isWarned, "\(log)")
        }
    }

    @Test func `a server does not start with anchors that it cannot read`() async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let path = directory.path(of: "anchors")
            try FileManager.default.createDirectory(
                atPath: path + "/tpm/roots", withIntermediateDirectories: true)
            try Data("no certificate".utf8).write(to: URL(filePath: path + "/tpm/roots/a.pem"))
            let empty = directory.path(of: "empty")
            try FileManager.default.createDirectory(
                atPath: empty + "/tpm/roots", withIntermediateDirectories: true)
            let correct = "Correct or remove the file or directory."
            for (anchors, message) in [
                (path, "\(path)/tpm/roots/a.pem: the file contains no certificate. \(correct)"),
                (
                    path + "/none",
                    "\(path)/none: the directory cannot be listed: No such file or directory. \(correct)"
                ),
                (
                    path + "/tpm/roots/a.pem",
                    "\(path)/tpm/roots/a.pem: the directory cannot be listed: Not a directory. \(correct)"
                ),
                (
                    empty,
                    "no roots below \(empty). Copy the manufacturers' root certificates into tpm/roots or piv/roots of it."
                ),
                (
                    path + "/tpm",
                    "\(path)/tpm/roots: it is not one of [\"aik\", \"piv\", \"simulated\", \"tpm\"]. \(correct)"
                ),
            ] {
                var configuration = TestServer.configuration
                configuration.attestation = AttestationConfiguration()
                configuration.attestation?.anchors = anchors
                let error = await #expect(throws: ConfigurationError.self) {
                    try await IdentityServices(
                        configuration, database: await TestDatabase.open(),
                        hasher: PasswordHasher(logRounds: 4),
                        signingKeyCipher: TestDatabase.cipher())
                }
                #expect(error?.description == "attestation.anchors: " + message)
            }
        }
    }

    @Test(arguments: [
        (["tpm"], ["tpm"]), (["aik"], ["tpm"]), (["piv"], ["piv"]),
        (["tpm", "piv"], ["tpm", "piv"]),
        (["simulated"], ["tpm", "piv"]),
    ])
    func `the formats are those with anchors`(kinds: [String], formats: [String]) async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let path = directory.path(of: "anchors")
            for kind in kinds { _ = try TestTPM().anchors(in: directory, as: kind, at: path) }
            try await TestServer.run {
                $0.attestation = AttestationConfiguration(anchors: path)
            } body: { server in
                #expect(server.services.attestation?.formats == formats)
            }
        }
    }
}
