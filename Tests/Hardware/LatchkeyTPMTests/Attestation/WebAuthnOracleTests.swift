import FoundationEssentials
import Latchkey
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import TPM2
import Testing

@testable import LatchkeyTPM

/// Independent WebAuthn servers verify the keystore's attestation objects. They know neither
/// attributes nor policies.
@Suite(.softwareTPM, .requiresWebAuthnLibraries)
struct WebAuthnOracleTests {
    private static let issuer = EnrolmentRig.issuer
    private static let challenge = Data("0123456789ABCDEFGHJKMNPQRSTVWXYZ".utf8)

    /// Certifies the keystore's attestation key by an authority of the oracle's.
    private func enrol(_ keystore: TPMKeystore) async throws -> WebAuthnLibraries.Issued {
        let identity = try await keystore.attestationIdentity(for: Self.issuer)
        let point = try #require(
            try PublicArea(unmarshalling: identity.attestationKey).p256Point?.p256Representation)
        let issued = try await WebAuthnLibraries.certificate(for: point, purpose: "2.23.133.8.3")
        try await keystore.keepAttestationCertificates(issued.x5c, for: Self.issuer)
        return issued
    }

    private func verify(_ object: Data, _ clientData: Data, _ id: KeyID, _ ca: String) async throws
        -> [String: String]
    {
        try await WebAuthnLibraries.ask(
            "verify",
            [
                "object": object.base64EncodedString(),
                "clientData": clientData.base64EncodedString(), "ca": ca,
                "challenge": Self.challenge.base64EncodedString(),
                "id": Data(id.rawValue.utf8).base64EncodedString(),
            ])
    }

    private var request: AttestationRequest {
        AttestationRequest(challenge: Self.challenge, issuer: Self.issuer, form: EnrolmentRig.form)
    }

    @Test func `py_webauthn and python-fido2 verify a key of the form for WebAuthn`() async throws {
        let keystore = TPMKeystore(
            tcti: try SoftwareTPM.current.tcti, anchors: MemoryTrustAnchors())
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
            let attestation = try await keystore.attest(
                key, for: request, authorizedBy: ScriptedPresence(pins: "123456"))
            let (object, clientData) = (
                try #require(attestation.object), try #require(attestation.clientData)
            )
            #expect(
                try await verify(object, clientData, key.id, issued.ca)
                    == ["py_webauthn": "verified", "python_fido2": "verified"])
            let other = try await WebAuthnLibraries.certificate(
                for: Array(key.publicKey.x963Representation), purpose: "2.23.133.8.3")
            let refused = try await verify(object, clientData, key.id, other.ca)
            #expect(refused["py_webauthn"] != "verified", "another authority")
            var damaged = object
            damaged[damaged.count - 1] ^= 1
            #expect(
                try await verify(damaged, clientData, key.id, issued.ca).values.allSatisfy {
                    $0 != "verified"
                })
        }
    }

    @Test func `a finger opens a key of the form for WebAuthn`() async throws {
        try await Scene.withBroker(.matches, .matches) { _, keystore, broker in
            let presence = ScriptedPresence([], broker: broker)
            let key = try await keystore.createKey(
                KeyRequest(policy: .biometryAny, prompt: Scene.prompt, form: .webAuthn),
                authorizedBy: presence)
            try await Scene.sign(keystore, key, presence)
            #expect(broker.requests.last?.use == .signNamingScheme(Scene.digest))
        }
    }

    /// A genuine attestation key certifies a software key that was imported into the TPM.
    @Test(.requires(program: "tpm2_import"))
    func `they accept an imported key, and Latchkey's verifier refuses it`()
        async throws
    {
        let (tpm, anchors) = (try SoftwareTPM.current, MemoryTrustAnchors())
        let keystore = TPMKeystore(tcti: tpm.tcti, anchors: anchors)
        let issued = try await enrol(keystore)
        try await TemporaryDirectory.withDirectory { directory in
            let tools = TPMTools(tpm, in: directory)
            try await SystemProgram("openssl").require(
                [
                    "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out",
                    tools.path("key.pem"),
                ])
            try await tools(
                "tpm2_import", "-C", "0x81000001", "-G", "ecc", "-i", tools.path("key.pem"), "-u",
                tools.path("pub"),
                "-r", tools.path("priv"), "-a", "userwithauth|sign|noda")
            let area = try PublicArea(unmarshalling: tools.bytes("pub").dropFirst(2))
            let privatePart = try PrivateBlob(unmarshalling: tools.bytes("priv"))
            let point = try #require(area.p256Point?.p256Representation)
            let made = try await Scene.key(keystore, .none)
            let imported = HardwareKey(
                id: made.id, backend: "tpm", policy: .pin, assurance: made.assurance,
                publicKey: try PublicKey(x963Representation: point), label: nil, createdAt: Date(),
                blob: Data())
            let content = try #require(WebAuthnContent(request, of: imported))
            let signer = try TPMKeyBlob(
                try #require(try await anchors.anchor("tpm/attestation-key/\(Self.issuer)")))
            let root = try await keystore.presentRoot()
            let said = try Scene.look { tpm in
                try tpm.withStorageRoot(root) { (parent) throws(TPMError) in
                    try tpm.withLoadedObject(of: signer.key, under: parent) {
                        (signer) throws(TPMError) in
                        try tpm.withLoaded(privatePart, area, under: parent) {
                            (object) throws(TPMError) in
                            try tpm.execute(
                                Certify(object, by: signer, challenge: content.challenge))
                        }
                    }
                }
            }
            let signature = try #require(ECDSASignature(said.signature))
            let object = AttestationObject.encode(
                certificates: issued.x5c, signature: try signature.derRepresentation,
                statement: Data(said.bytes),
                publicArea: Data(area.marshalled), authenticatorData: content.authenticatorData)
            #expect(
                try await verify(object, content.clientData, imported.id, issued.ca)
                    == ["py_webauthn": "verified", "python_fido2": "verified"])
            let attestation = KeyAttestation(
                format: KeyAttestation.tpm, statement: Data(said.bytes),
                signature: signature.rawRepresentation,
                publicArea: Data(area.marshalled), attestationKey: Data(), certificates: issued.x5c,
                presence: PresenceStatement(branches: []), object: object,
                clientData: content.clientData)
            let rig = try EnrolmentRig(endorsement: .init(roots: []), trusting: [issued.x5c[1]])
            let code = await EnrolmentRig.refusal {
                _ = try await rig.verify(attestation, of: imported, challenge: Self.challenge)
            }
            #expect(code == .wrongAttributes)
        }
    }

    /// tpm2-tools verifies the signature over the raw statement.
    @Test(.requires(program: "tpm2_verifysignature"))
    func `tpm2-tools verifies the raw statement of every form`()
        async throws
    {
        let tpm = try SoftwareTPM.current
        let keystore = TPMKeystore(tcti: tpm.tcti, anchors: MemoryTrustAnchors())
        let key = try await Scene.key(keystore)
        try await TemporaryDirectory.withDirectory { directory in
            let tools = TPMTools(tpm, in: directory)
            for form in [AttestationRequest.Form.creation, .certify] {
                let attestation = try await keystore.attest(
                    key, for: AttestationRequest(challenge: Data(0..<32), form: form),
                    authorizedBy: ScriptedPresence(pins: "123456"))
                let signature = try #require(
                    ECDSASignature(rawRepresentation: attestation.signature))
                for (name, bytes) in [
                    ("signer.pub", TPM2B(Array(attestation.attestationKey)).marshalled),
                    ("statement", Array(attestation.statement)),
                    ("signature", TPMSignature(signature).marshalled),
                ] { try Data(bytes).write(to: URL(filePath: tools.path(name))) }
                try await tools(
                    "tpm2_loadexternal", "-C", "n", "-u", tools.path("signer.pub"), "-c",
                    tools.path("signer.ctx"))
                try await tools(
                    "tpm2_verifysignature", "-c", tools.path("signer.ctx"), "-g", "sha256", "-m",
                    tools.path("statement"), "-s", tools.path("signature"))
            }
        }
    }

    /// The reason why ``KeyForm/webAuthn`` exists.
    @Test func `they refuse a key with a fixed scheme`() async throws {
        let keystore = TPMKeystore(
            tcti: try SoftwareTPM.current.tcti, anchors: MemoryTrustAnchors())
        let issued = try await enrol(keystore)
        let key = try await Scene.key(keystore, .none)
        let attestation = try await keystore.attest(key, for: request)
        let answers = try await verify(
            #require(attestation.object), #require(attestation.clientData), key.id, issued.ca)
        #expect(answers.values.allSatisfy { $0 != "verified" }, "\(answers)")
    }
}

/// The Python environment that `scripts/setup` installs, with `Oracles/webauthn_oracle.py`.
enum WebAuthnLibraries {
    /// A certificate and its issuer's, DER, and the issuer's in PEM.
    struct Issued: Decodable {
        let x5c: [Data]
        let ca: String
    }

    /// A certificate for a key of a TPM on P-256.
    static func certificate(for point: [UInt8], purpose: String) async throws -> Issued {
        let hex = point.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
        return try await ask("issue", ["point": hex, "purpose": purpose])
    }

    static func ask<Answer: Decodable>(_ mode: String, _ question: [String: String]) async throws
        -> Answer
    {
        let script = URL(filePath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent()
            .appending(path: "Oracles/webauthn_oracle.py")
        let outcome = try await SystemProgram(python).result(
            of: [script.path, mode], input: Array(try JSONEncoder().encode(question)))
        try #require(outcome.isSuccess, "\(outcome.text)")
        return try JSONDecoder().decode(Answer.self, from: Data(outcome.output.utf8))
    }

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
