import Crypto
import Foundation
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import TPM2
import Testing

@testable import latchkey_identity

@Suite(
    "Attestation with a software TPM", .softwareTPM(.endorsementCertificate),
    .requires(program: "swtpm_setup"),
    .requires(program: "tpm2_activatecredential"))
struct AttestationTPMTests {
    private func activate(_ server: TestServer, _ tools: TPMTools, _ area: Data, bearer: String)
        async throws -> [Data]
    {
        try await tools("tpm2_nvread", "0x01C00016", "-o", tools.path("ek.der"))
        let begun = try await server.post(
            "/attestation/activation",
            json: #"{"ek_certificates":["\#(Base64URL.encode(try tools.bytes("ek.der")))"],"#
                + #""attestation_key":"\#(Base64URL.encode(area))"}"#, bearer: bearer)
        try #require(begun.status == 201, "\(begun.body)")
        func member(_ name: String) throws -> Data {
            try #require(try begun.json[name]?.string.flatMap { Base64URL.decode($0) })
        }
        let secret = try await tools.activate(
            credentialBlob: member("credential_blob"), encryptedSecret: member("encrypted_secret"),
            key: "aik",
            endorsementKey: "0x81010016", needsPolicy: false)
        let id = try #require(try begun.json["id"]?.string)
        let answer = try await server.post(
            "/attestation/activation/\(id)", json: #"{"secret":"\#(Base64URL.encode(secret))"}"#,
            bearer: bearer
        ).success()
        return try #require(answer["x5c"]?.array).map {
            try #require($0.string.flatMap { Base64URL.decode($0) })
        }
    }

    @Test
    func
        `a key of the TPM that requires a PIN is set up and logs in, one without a PIN is refused`()
        async throws
    {
        let tpm = try SoftwareTPM.current
        try await TemporaryDirectory.withDirectory { directory in
            let tools = TPMTools(tpm, in: directory)
            let anchors = try tpm.anchors(in: directory)
            try await TestServer.run { configuration in
                configuration.attestation = AttestationConfiguration()
                configuration.attestation?.require = "presence"
                configuration.attestation?.anchors = anchors
                configuration.attestation?.acceptSimulated = true
            } body: { server in
                let bearer = try await server.login().access
                let chain = try await activate(
                    server, tools, tools.createKey("aik", "|noda|restricted"), bearer: bearer)
                for (name, attributes) in [("bare", "|noda"), ("pin", "")] {
                    let key = try await KeyInTPM(name, attributes, tools: tools)
                    let setup = try await key.setUp(server, chain, bearer: bearer)
                    guard name == "pin" else {
                        try setup.expectRefused(.insufficientPresence)
                        continue
                    }
                    #expect(setup.status == 200, "\(setup.body)")
                    let stored = try await server.services.devices.devices(of: server.alice.id)
                        .first?.attestation
                    #expect(stored?.presence == "pin" && stored?.isSimulated == true)
                    try await server.biometric(
                        key.request("authenticate", server.challenge(), server.time.seconds),
                        overriding: ["scope": TestServer.fullScope]
                    ).success()
                }
            }
        }
    }
}

/// A key in the TPM with the PIN 123456, which signs biometric requests.
private struct KeyInTPM {
    private static let pin = "123456"

    private let name: String
    private let kid = UUID().uuidString
    private let tools: TPMTools
    private let area: Data
    private let publicKey: P256.Signing.PublicKey

    init(_ name: String, _ attributes: String, tools: TPMTools) async throws {
        self.name = name
        self.tools = tools
        area = try await tools.createKey(name, attributes, pin: Self.pin)
        let point = try #require(PublicArea(unmarshalling: area).p256Point?.p256Representation)
        publicKey = try P256.Signing.PublicKey(x963Representation: point)
    }

    func setUp(_ server: TestServer, _ chain: [Data], bearer: String) async throws -> Answer {
        let challenge = try await server.challenge()
        let binding = try TestTPM.Binding(
            publicKey, named: kid, challenge: challenge, origin: server.origin)
        let (certInfo, signature) = try await tools.certifyCreation(
            of: name, by: "aik", qualifyingData: binding.extraData)
        let statement = TestTPM.json(
            binding, certInfo: certInfo, signature: signature, area: area, certificates: chain)
        return try await server.biometric(
            request("setup", challenge, server.time.seconds), bearer: bearer,
            overriding: ["attestation": statement])
    }

    func request(_ action: String, _ challenge: String, _ now: Int) async throws -> String {
        let input = try TestDevice.signingInput(
            action, publicKey, named: kid, challenge: challenge, now: now)
        let signature = try await tools.sign(
            Data(SHA256.hash(data: Data(input.utf8))), with: name, pin: Self.pin)
        return input + "."
            + Base64URL.encode(
                try P256.Signing.ECDSASignature(derRepresentation: signature).rawRepresentation)
    }
}
