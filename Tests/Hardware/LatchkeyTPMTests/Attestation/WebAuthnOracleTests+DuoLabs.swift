import Crypto
import Foundation
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@testable import LatchkeyTPM

extension WebAuthnOracleTests {
    @Test(.requiresDuoLabs)
    func `duo-labs accepts keys of both forms, and refuses changed objects`() async throws {
        let keystore = TPMKeystore(
            tcti: try SoftwareTPM.current.tcti, anchors: MemoryTrustAnchors())
        _ = try await enrol(keystore)
        var objects: [(object: Data, clientData: Data)] = []
        for form in [KeyForm.fixedScheme, .webAuthn] {
            let key = try await keystore.createKey(
                KeyRequest(policy: .pin, prompt: Scene.prompt, form: form),
                authorizedBy: ScriptedPresence(pins: "123456"))
            let attestation = try await keystore.attest(
                key, for: request, authorizedBy: ScriptedPresence(pins: "123456"))
            objects.append((try #require(attestation.object), try #require(attestation.clientData)))
        }
        let accepted = try await DuoLabs.answers(about: objects)
        #expect(accepted == ["verified", "verified"])
        var changed: [(object: Data, clientData: Data)] = []
        for (object, clientData) in objects {
            var damaged = object
            damaged[damaged.count - 1] ^= 1
            changed += [(damaged, clientData), (object, clientData + Data([0x20]))]
        }
        let refused = try await DuoLabs.answers(about: changed)
        #expect(
            refused.count == 4 && refused.allSatisfy { $0.hasPrefix("invalid_attestation: ") },
            "\(refused)")
    }
}

/// The WebAuthn library of duo-labs, with `Oracles/duo_verify.go`.
private enum DuoLabs {
    /// The folder in which Debian installs the sources of Go libraries.
    private static let path = "/usr/share/gocode"

    static var isInstalled: Bool {
        FileManager.default.fileExists(atPath: path + "/src/github.com/duo-labs/webauthn/protocol")
    }

    /// Returns the library's answer about each object.
    static func answers(about objects: [(object: Data, clientData: Data)]) async throws -> [String]
    {
        let source = URL(filePath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent()
            .appending(path: "Oracles/duo_verify.go").path
        let lines = objects.map { object, clientData in
            "\(object.base64EncodedString()) \(Data(SHA256.hash(data: clientData)).base64EncodedString())\n"
        }
        return try await TemporaryDirectory.withDirectory { directory in
            let program = directory.path(of: "duo-verify")
            try await SystemProgram(
                "go",
                environment: [
                    "GO111MODULE": "off", "GOPATH": path, "GOCACHE": directory.path(of: "cache"),
                ]
            ).require(["build", "-o", program, source])
            let outcome = try await SystemProgram(program).result(
                of: [], input: Array(lines.joined().utf8))
            try #require(outcome.isSuccess, "\(outcome.text)")
            return outcome.output.split(separator: "\n").map(String.init)
        }
    }
}

extension Trait where Self == ConditionTrait {
    fileprivate static var requiresDuoLabs: Self {
        .enabled(
            if: FileManager.default.isExecutableFile(atPath: "/usr/bin/go") && DuoLabs.isInstalled,
            "needs Go and its library duo-labs/webauthn, which scripts/setup installs if apt has them"
        )
    }
}
