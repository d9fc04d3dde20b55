import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import TPM2
import Testing

@testable import LatchkeyTPM

/// Independent WebAuthn servers verify the keystore's attestation objects. They know neither attributes nor policies.
@Suite(.softwareTPM, .requiresWebAuthnLibraries)
struct WebAuthnOracleTests {
    private struct Issued: Decodable {
        let x5c: [Data]
        let ca: String
    }

    private static let issuer = EnrolmentRig.issuer
    private static let challenge = Data("0123456789ABCDEFGHJKMNPQRSTVWXYZ".utf8)

    private func ask<Answer: Decodable>(_ mode: String, _ question: [String: String]) async throws -> Answer {
        let script = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "Oracles/webauthn_oracle.py")
        let outcome = try await SystemProgram(WebAuthnLibraries.python).result(
            of: [script.path, mode], input: Array(try JSONEncoder().encode(question)))
        try #require(outcome.isSuccess, "\(outcome.text)")
        return try JSONDecoder().decode(Answer.self, from: Data(outcome.output.utf8))
    }

    /// Certifies the keystore's attestation key by an authority of the oracle's.
    private func enrol(_ keystore: TPMKeystore) async throws -> Issued {
        let identity = try await keystore.attestationIdentity(for: Self.issuer)
        let point = try #require(try PublicArea(unmarshalling: identity.attestationKey).p256Point?.p256Representation)
        let hex = point.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
        let issued: Issued = try await ask("issue", ["point": hex])
        try await keystore.keepAttestationCertificates(issued.x5c, for: Self.issuer)
        return issued
    }

    private func verify(_ object: Data, _ clientData: Data, _ id: KeyID, _ ca: String) async throws -> [String: String]
    {
        try await ask(
            "verify",
            [
                "object": object.base64EncodedString(), "clientData": clientData.base64EncodedString(), "ca": ca,
                "challenge": Self.challenge.base64EncodedString(),
                "id": Data(id.rawValue.utf8).base64EncodedString(),
            ])
    }

    private var request: AttestationRequest {
        AttestationRequest(challenge: Self.challenge, issuer: Self.issuer, form: EnrolmentRig.form)
    }

    @Test func `py_webauthn and python-fido2 verify a key of the form for WebAuthn`() async throws {
        let keystore = TPMKeystore(tcti: try SoftwareTPM.current.tcti, anchors: MemoryTrustAnchors())
        let issued = try await enrol(keystore)
        let make = KeyRequest(policy: .pin, prompt: Scene.prompt, form: .webAuthn)
        let keys = [
            try await keystore.createKey(make, authorizedBy: ScriptedPresence(pins: "123456")),
            try await keystore.createRevocableKey(
                KeyRequest(policy: .pin, prompt: Scene.prompt, form: .webAuthn),
                authorizedBy: ScriptedPresence(pins: "123456")
            ) { _ in },
        ]
        for key in keys {
            try await Scene.sign(keystore, key)
            let attestation = try await keystore.attest(key, for: request)
            let (object, clientData) = (try #require(attestation.object), try #require(attestation.clientData))
            #expect(
                try await verify(object, clientData, key.id, issued.ca)
                    == ["py_webauthn": "verified", "python_fido2": "verified"])
            let other: Issued = try await ask(
                "issue",
                [
                    "point": key.publicKey.x963Representation.map { byte in
                        String(byte >> 4, radix: 16) + String(byte & 15, radix: 16)
                    }.joined()
                ])
            let refused = try await verify(object, clientData, key.id, other.ca)
            #expect(refused["py_webauthn"] != "verified", "another authority")
            var damaged = object
            damaged[damaged.count - 1] ^= 1
            #expect(try await verify(damaged, clientData, key.id, issued.ca).values.allSatisfy { $0 != "verified" })
        }
    }

    @Test func `a finger opens a key of the form for WebAuthn`() async throws {
        try await Scene.withBroker(.matches, .matches) { _, keystore, broker in
            let presence = ScriptedPresence([], broker: broker)
            let key = try await keystore.createKey(
                KeyRequest(policy: .biometryAny, prompt: Scene.prompt, form: .webAuthn), authorizedBy: presence)
            try await Scene.sign(keystore, key, presence)
            #expect(broker.requests.last?.use == .signNamingScheme(Scene.digest))
        }
    }

    /// The reason why ``KeyForm/webAuthn`` exists.
    @Test func `they refuse a key with a fixed scheme`() async throws {
        let keystore = TPMKeystore(tcti: try SoftwareTPM.current.tcti, anchors: MemoryTrustAnchors())
        let issued = try await enrol(keystore)
        let key = try await Scene.key(keystore, .none)
        let attestation = try await keystore.attest(key, for: request)
        let answers = try await verify(
            #require(attestation.object), #require(attestation.clientData), key.id, issued.ca)
        #expect(answers.values.allSatisfy { $0 != "verified" }, "\(answers)")
    }
}

/// The Python environment that `scripts/setup` installs.
enum WebAuthnLibraries {
    static var python: String {
        let environment = ProcessInfo.processInfo.environment
        let cache = environment["XDG_CACHE_HOME"] ?? "\(environment["HOME"] ?? "")/.cache"
        return "\(cache)/latchkey/webauthn/bin/python"
    }
}

extension Trait where Self == ConditionTrait {
    static var requiresWebAuthnLibraries: Self {
        .enabled(
            if: FileManager.default.isExecutableFile(atPath: WebAuthnLibraries.python),
            "needs py_webauthn and python-fido2, which scripts/setup installs")
    }
}
