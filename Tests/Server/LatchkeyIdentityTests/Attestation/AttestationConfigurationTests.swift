import Foundation
import Latchkey
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

@Suite("Attestation, configuration") struct AttestationConfigurationTests {
    private static let name = "000b" + String(repeating: "5a", count: 32)

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
        let least = try #require(try Self.configuration(#"{"tpm_anchors": ["/a"]}"#).attestation)
        #expect(least.require == "none" && least.level == .none)
        #expect(
            least.tpmAnchors == ["/a"] && least.pivAnchors.isEmpty && least.simulatedAnchors.isEmpty
        )
        #expect(!least.acceptSimulated && least.approvalKeys == nil)
        #expect(
            least.certificateDays == 90 && least.maximumReuseSeconds == 0 && least.keepsEndorsement)

        let all = try Self.configuration(
            """
            {"require": "finger", "tpm_anchors": ["/a"], "piv_anchors": ["/b"], "simulated_anchors": ["/c"],
             "accept_simulated": true, "approval_keys": ["\(Self.name)"], "certificate_days": 1,
             "maximum_reuse_seconds": 300, "keep_endorsement": "none"}
            """, client: #", "attestation_require": "touch""#)
        let own = try #require(all.attestation)
        #expect(own.level == .finger && own.pivAnchors == ["/b"] && own.simulatedAnchors == ["/c"])
        #expect(own.acceptSimulated && own.approvalKeys == [Self.name])
        #expect(own.certificateDays == 1 && own.maximumReuseSeconds == 300 && !own.keepsEndorsement)
        #expect(all.clients[0].attestationRequire == "touch")
    }

    @Test(arguments: [
        (
            #""require": "strong""#,
            "attestation.require: “strong” is not one of none, hardware, presence, finger, touch."
        ),
        (#""require": 1"#, "attestation.require: must be a text, and is an integer."),
        (#""requires": "finger""#, "attestation.requires: unknown member."),
        (#""tpm_anchors": []"#, "attestation.tpm_anchors: there are no trust anchors."),
        (#""tpm_anchors": "/a""#, "attestation.tpm_anchors: must be a list, and is a text."),
        (#""tpm_anchors": [1]"#, "attestation.tpm_anchors.0: must be a text, and is an integer."),
        (#""tpm_anchors": ["/a", "/a"]"#, "attestation.tpm_anchors.1: repeats another element"),
        (
            #""accept_simulated": true"#,
            "attestation.accept_simulated: there are no simulated_anchors."
        ),
        (
            #""accept_simulated": "yes""#,
            "attestation.accept_simulated: must be true or false, and is a text."
        ),
        (
            #""approval_keys": "any""#, "attestation.approval_keys: must be a list, and is a text."
        ),
        (#""approval_keys": ["000b"]"#, "attestation.approval_keys.0: “000b” is not a Name"),
        (#""certificate_days": 0"#, "attestation.certificate_days: must be from 1 to 398."),
        (#""certificate_days": 399"#, "attestation.certificate_days: must be from 1 to 398."),
        (
            #""maximum_reuse_seconds": -1"#,
            "attestation.maximum_reuse_seconds: must be from 0 to 300."
        ),
        (
            #""maximum_reuse_seconds": 301"#,
            "attestation.maximum_reuse_seconds: must be from 0 to 300."
        ),
        (
            #""keep_endorsement": "all""#,
            "attestation.keep_endorsement: “all” is not one of hash, none."
        ),
        (
            #""keep_endorsement": "none""#,
            #"attestation.keep_endorsement: "none", but enrolled approval keys"#
        ),
        (
            #""require": "touch""#,
            "attestation.require: no key can meet touch with these trust anchors."
        ),
        (
            #""require": "hardware", "tpm_anchors": [], "simulated_anchors": ["/c"]"#,
            "attestation.require: no key can meet hardware with these trust anchors."
        ),
        (
            #""require": "finger", "tpm_anchors": [], "piv_anchors": ["/b"]"#,
            "attestation.require: no key can meet finger with these trust anchors."
        ),
    ])
    func `an error names the member and the mistake`(member: String, message: String) throws {
        let anchors = member.contains("tpm_anchors") ? "" : #""tpm_anchors": ["/a"], "#
        let error = #expect(throws: ConfigurationError.self) {
            try Self.configuration("{\(anchors)\(member)}")
        }
        #expect(error?.description.hasPrefix(message) == true, "\(error?.description ?? "")")
    }

    @Test func `errors outside of the member name their place`() {
        for (attestation, client, more, message) in [
            ("true", "", "", "attestation: must be an object, and is true or false."),
            (
                #"{"tpm_anchors": ["/a"]}"#, #", "attestation_require": "all""#, "",
                "clients.0.attestation_require: “all” is not one of none, hardware, presence, finger, touch."
            ),
            (
                #"{"tpm_anchors": ["/a"]}"#, #", "attestation_require": "touch""#, "",
                "clients.0.attestation_require: no key can meet touch with these trust anchors."
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
                atPath: anchors + "/roots", withIntermediateDirectories: true)
            try AttestationIssuer.generate(name: "Example root", at: Date()).certificate.write(
                to: URL(filePath: anchors + "/roots/root.der"))
            let bad = anchors + "/roots/README.md"
            try Data("roots of 2026".utf8).write(to: URL(filePath: bad))
            let config = directory.path(of: "config.json")
            try Data(
                #"{"clients": [{"client_id": "app", "redirect_uris": ["a.b:/"]}], "attestation": {"tpm_anchors": ["\#(anchors)"]}}"#
                    .utf8
            ).write(to: URL(filePath: config))
            let server = try await IdentityProcess([
                "--config", config, "--port", "0", "--database", ":memory:",
            ])
            #expect(await server.stop() == 0)
            let log = await server.log
            #expect(
                log.contains(
                    "attestation.tpm_anchors: \(bad) is not used: its name does not end in .pem"),
                "\(log)")
            #expect(log.contains("1 not used, 1 roots and 0 intermediates left"), "\(log)")
        }
    }

    @Test func `a server does not start with anchors that it cannot read`() async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let path = directory.path(of: "anchors")
            try FileManager.default.createDirectory(
                atPath: path + "/roots", withIntermediateDirectories: true)
            try Data("no certificate".utf8).write(to: URL(filePath: path + "/roots/a.pem"))
            let empty = directory.path(of: "empty")
            try FileManager.default.createDirectory(
                atPath: empty + "/roots", withIntermediateDirectories: true)
            let correct = "Correct or remove the file or directory."
            for (anchors, message) in [
                (path, "\(path)/roots/a.pem: the file contains no certificate. \(correct)"),
                (
                    path + "/none",
                    "\(path)/none: the directory cannot be listed: No such file or directory. \(correct)"
                ),
                (
                    path + "/roots/a.pem",
                    "\(path)/roots/a.pem: the directory cannot be listed: Not a directory. \(correct)"
                ),
                (
                    empty,
                    "no roots in \(empty)/roots. Copy the manufacturer's root certificates into it."
                ),
                (
                    empty + "/roots",
                    "no roots in \(empty)/roots/roots. Copy the manufacturer's root certificates into it."
                ),
            ] {
                var configuration = TestServer.configuration
                configuration.attestation = AttestationConfiguration()
                configuration.attestation?.pivAnchors = [anchors]
                let error = await #expect(throws: ConfigurationError.self) {
                    try await IdentityServices(
                        configuration, database: await TestDatabase.open(),
                        hasher: PasswordHasher(
                            cost: .init(logRounds: 4, blockSize: 1, parallelism: 1)),
                        signingKeyCipher: TestDatabase.cipher())
                }
                #expect(error?.description == "attestation.piv_anchors: " + message)
            }
        }
    }

    @Test func `the formats are those with anchors`() async throws {
        try await TestServer.runAttested({ _, attestation, _ in
            attestation.pivAnchors = attestation.tpmAnchors
        }) {
            server, _ in
            #expect(server.services.attestation?.formats == ["tpm", "piv"])
        }
        try await TestServer.runAttested({ _, attestation, _ in
            attestation.pivAnchors = attestation.tpmAnchors
            attestation.tpmAnchors = []
        }) { server, _ in
            #expect(server.services.attestation?.formats == ["piv"])
        }
        try await TestServer.runAttested(isSimulated: true) { server, _ in
            #expect(server.services.attestation?.formats == ["tpm", "piv"])
        }
    }
}
