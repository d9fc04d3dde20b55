import Crypto
import Foundation
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import SwiftASN1
import TPM2
import Testing
import X509

@testable import LatchkeyRelyingParty

/// The programs tpm2-tools on the software TPM of the test, as an independent client.
private struct TPMTools {
    let directory: TemporaryDirectory
    let tcti: String

    func callAsFunction(_ name: String, _ arguments: String...) async throws {
        _ = try await SystemProgram(name).require(["-T", tcti] + arguments)
        _ = try await SystemProgram("tpm2_flushcontext").require(["-T", tcti, "-t"])
    }

    func path(_ name: String) -> String { directory.path(of: name) }
    func bytes(_ name: String) throws -> Data { try Data(contentsOf: URL(filePath: path(name))) }

    /// Creates a P-256 key for ECDSA with SHA-256 below the storage root key, in the files `NAME.ctx` and `NAME.pub`.
    ///
    /// - Returns: `TPMT_PUBLIC`.
    func createKey(_ name: String, _ attributes: String) async throws -> Data {
        if !FileManager.default.fileExists(atPath: path("primary.ctx")) {
            try await self("tpm2_createprimary", "-C", "o", "-G", "ecc256:null:aes128cfb", "-c", path("primary.ctx"))
        }
        try await self(
            "tpm2_create", "-C", path("primary.ctx"), "-G", "ecc256:ecdsa-sha256:null", "-a",
            "fixedtpm|fixedparent|sensitivedataorigin|userwithauth|sign|noda" + attributes, "-u", path(name + ".pub"),
            "-r", path(name + ".priv"), "--creation-hash", path(name + ".hash"), "-t", path(name + ".ticket"))
        try await self(
            "tpm2_load", "-C", path("primary.ctx"), "-u", path(name + ".pub"), "-r", path(name + ".priv"), "-c",
            path(name + ".ctx"))
        return try bytes(name + ".pub").dropFirst(2)
    }

    /// Opens a challenge with `TPM2_ActivateCredential`.
    ///
    /// - Parameter needsPolicy: Whether the endorsement key has an L template, whose policy is `PolicySecret(endorsement)`.
    func activate(
        _ challenge: EndorsementAuthority.Challenge, key: String, endorsementKey: String, needsPolicy: Bool
    ) async throws -> Data {
        // The file format of tpm2_makecredential: magic, version, TPM2B_ID_OBJECT, TPM2B_ENCRYPTED_SECRET.
        let file = TPMWriter(
            UInt32(0xbadc_c0de), UInt32(1), TPM2B(Array(challenge.credentialBlob)),
            TPM2B(Array(challenge.encryptedSecret)))
        try Data(file.bytes).write(to: URL(filePath: path("credential")))
        var arguments = [
            "-T", tcti, "-c", path(key + ".ctx"), "-C", endorsementKey, "-i", path("credential"), "-o", path("secret"),
        ]
        if needsPolicy {
            try await self("tpm2_startauthsession", "--policy-session", "-S", path("session"))
            try await self("tpm2_policysecret", "-S", path("session"), "-c", "e")
            arguments += ["-P", "session:" + path("session")]
        }
        let outcome = try await SystemProgram("tpm2_activatecredential").result(of: arguments)
        if needsPolicy { try await self("tpm2_flushcontext", path("session")) }
        // A failed run leaves its objects in the TPM, which has three slots.
        try await SystemProgram("tpm2_flushcontext").require(["-T", tcti, "-t"])
        guard outcome.isSuccess else { throw ToolError(text: outcome.text) }
        return try bytes("secret")
    }

    struct ToolError: Error { let text: String }
}

@Suite(
    "Activation with a software TPM", .softwareTPM(.endorsementCertificate), .requires(program: "swtpm_setup"),
    .requires(program: "tpm2_activatecredential"))
struct ActivationTests {
    private let issuer: AttestationIssuer
    private let simulatedIssuer: AttestationIssuer

    init() throws {
        func issuer() throws -> AttestationIssuer {
            let made = try AttestationIssuer.generate(name: "Example AIK CA", at: Date())
            return try AttestationIssuer(certificate: made.certificate, privateKey: made.privateKey)
        }
        self.issuer = try issuer()
        simulatedIssuer = try issuer()
    }

    /// The roots and intermediates of the software TPM's authority.
    private static func authority(of tpm: SoftwareTPM) throws -> AttestationAnchors.Group {
        func certificates(_ path: String) throws -> [Data] {
            try PEMDocument.parseMultiple(pemString: String(contentsOfFile: path, encoding: .utf8)).map {
                Data($0.derBytes)
            }
        }
        return try AttestationAnchors.Group(
            roots: certificates(tpm.rootCertificatePath),
            intermediates: certificates(tpm.stateDirectory + "/ca/issuercert.pem"))
    }

    private func withTools<Value>(_ body: (SoftwareTPM, TPMTools) async throws -> Value) async throws -> Value {
        let tpm = try SoftwareTPM.current
        return try await TemporaryDirectory.withDirectory { directory in
            try await body(tpm, TPMTools(directory: directory, tcti: tpm.tcti))
        }
    }

    private func expectVerified(_ chain: [Data], _ area: Data, isSimulated: Bool) throws {
        let anchors = AttestationAnchors(
            aik: try .init(roots: [issuer.certificate]), simulated: try .init(roots: [simulatedIssuer.certificate]))
        let verified = try AttestationKeyCertificate(
            chain, anchors: anchors, time: Int64(Date().timeIntervalSince1970))
        #expect(try verified.publicKey == P256Area(area).publicKey)
        if case .simulated = verified.hardware { #expect(isSimulated) } else { #expect(!isSimulated) }
    }

    @Test(arguments: [("0x01C00016", "0x81010016", false), ("0x01C00002", "0x81010001", true)])
    func `the TPM opens a challenge for its endorsement key of P-384 or RSA`(
        index: String, handle: String, needsPolicy: Bool
    ) async throws {
        try await withTools { tpm, tools in
            let area = try await tools.createKey("aik", "|restricted")
            try await tools("tpm2_nvread", index, "-o", tools.path("ek.der"))
            for isSimulated in [true, false] {
                let group = try Self.authority(of: tpm)
                let authority = EndorsementAuthority(
                    anchors: isSimulated ? AttestationAnchors(simulated: group) : AttestationAnchors(tpm: group),
                    issuer: issuer, simulatedIssuer: simulatedIssuer)
                let (challenge, pending) = try authority.challenge(
                    endorsement: [tools.bytes("ek.der")], attestationKey: area)
                let secret = try await tools.activate(
                    challenge, key: "aik", endorsementKey: handle, needsPolicy: needsPolicy)
                let chain = try authority.certificate(for: pending, secret: secret)
                try expectVerified(chain, area, isSimulated: isSimulated)
            }
        }
    }

    @Test func `the TPM opens a challenge for its endorsement key of P-256`() async throws {
        try await withTools { _, tools in
            let area = try await tools.createKey("aik", "|restricted")
            try await tools("tpm2_createek", "-G", "ecc", "-c", tools.path("ek.ctx"), "-u", tools.path("ek.pub"))
            let endorsementKey = try PublicArea(unmarshalling: tools.bytes("ek.pub").dropFirst(2))
            let point = try #require(endorsementKey.p256Point?.p256Representation)
            let maker = P256.Signing.PrivateKey()
            let root = try AttestationRig.certificate(
                maker.publicKey, subject: AttestationRig.name, by: maker, issuer: AttestationRig.name, start: Date(),
                extensions: Certificate.Extensions {
                    Critical(BasicConstraints.isCertificateAuthority(maxPathLength: 0))
                })
            let certificate = try AttestationRig.certificate(
                P256.Signing.PublicKey(x963Representation: point), subject: DistinguishedName(), by: maker,
                issuer: AttestationRig.name, start: Date(),
                extensions: AttestationRig.attestationKeyExtensions(purpose: [2, 23, 133, 8, 1]))
            let authority = EndorsementAuthority(
                anchors: AttestationAnchors(tpm: try .init(roots: [root])), issuer: issuer)
            let (challenge, pending) = try authority.challenge(endorsement: [certificate], attestationKey: area)
            let secret = try await tools.activate(
                challenge, key: "aik", endorsementKey: tools.path("ek.ctx"), needsPolicy: true)
            try expectVerified(try authority.certificate(for: pending, secret: secret), area, isSimulated: false)
        }
    }

    @Test func `the TPM refuses a challenge for another key or with a changed byte`() async throws {
        try await withTools { tpm, tools in
            let area = try await tools.createKey("aik", "|restricted")
            let other = try await tools.createKey("other", "|restricted")
            try await tools("tpm2_nvread", "0x01C00016", "-o", tools.path("ek.der"))
            let authority = EndorsementAuthority(
                anchors: AttestationAnchors(tpm: try Self.authority(of: tpm)), issuer: issuer)
            func challenge(_ area: Data) throws -> EndorsementAuthority.Challenge {
                try authority.challenge(endorsement: [tools.bytes("ek.der")], attestationKey: area).0
            }
            let right = try challenge(area)
            var blob = right.credentialBlob
            blob[blob.count - 1] ^= 1
            let changed = EndorsementAuthority.Challenge(credentialBlob: blob, encryptedSecret: right.encryptedSecret)
            for wrong in [try challenge(other), changed] {
                let error = await #expect(throws: TPMTools.ToolError.self) {
                    try await tools.activate(wrong, key: "aik", endorsementKey: "0x81010016", needsPolicy: false)
                }
                // TPM_RC_INTEGRITY of the first parameter.
                #expect(error?.text.contains("0x1DF") == true, "\(error?.text ?? "")")
            }
            #expect(
                try await tools.activate(right, key: "aik", endorsementKey: "0x81010016", needsPolicy: false).count
                    == 32)
        }
    }

    @Test func `a key is attested by the certified attestation key`() async throws {
        try await withTools { tpm, tools in
            let area = try await tools.createKey("aik", "|restricted")
            let key = try await tools.createKey("key", "")
            try await tools("tpm2_nvread", "0x01C00016", "-o", tools.path("ek.der"))
            let authority = EndorsementAuthority(
                anchors: AttestationAnchors(simulated: try Self.authority(of: tpm)), issuer: issuer,
                simulatedIssuer: simulatedIssuer)
            let (challenge, pending) = try authority.challenge(
                endorsement: [tools.bytes("ek.der")], attestationKey: area)
            let secret = try await tools.activate(
                challenge, key: "aik", endorsementKey: "0x81010016", needsPolicy: false)
            let chain = try authority.certificate(for: pending, secret: secret)

            let token = Data(0..<32)
            try await tools(
                "tpm2_certifycreation", "-C", tools.path("aik.ctx"), "-c", tools.path("key.ctx"), "-d",
                tools.path("key.hash"), "-t", tools.path("key.ticket"), "-g", "sha256", "-q",
                token.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined(), "--attestation",
                tools.path("statement"), "-o", tools.path("signature"))
            let object = CBOR.map([
                ("fmt", .text("tpm")),
                (
                    "attStmt",
                    .map([
                        ("alg", .negative(7)), ("sig", .bytes(try tools.bytes("signature"))), ("ver", .text("2.0")),
                        ("x5c", .array(chain.map(CBOR.bytes))), ("pubArea", .bytes(key)),
                        ("certInfo", .bytes(try tools.bytes("statement"))),
                    ])
                ),
            ])
            let statement = try AttestationStatement(
                json: ForgedStatement.json(object.encoded, clientData: nil, presence: nil))
            let verifier = AttestationVerifier(
                anchors: AttestationAnchors(
                    aik: try .init(roots: [issuer.certificate]),
                    simulated: try .init(roots: [simulatedIssuer.certificate])),
                approvalKeys: ListedApprovalKeys([]))
            let deviceKey = DevicePublicKey.es256(try P256Area(key).publicKey)
            func verify(_ requirement: AttestationRequirement) async throws -> AttestationVerdict {
                try await verifier.verify(
                    statement, of: deviceKey,
                    for: AttestationExpectation(challenge: token, binding: .qualifyingData, requirement: requirement))
            }
            let verdict = try await verify(.init(.hardware, acceptsSimulated: true))
            #expect(verdict.isSimulated)
            #expect(verdict.presence == AssuranceLevel.EnforcedPresence.none)
            for (requirement, code) in [
                (AttestationRequirement(.hardware), AttestationError.Code.simulated),
                (.init(.presence, acceptsSimulated: true), .insufficientPresence),
                (.init(.finger, acceptsSimulated: true), .insufficientPresence),
            ] {
                let error = await #expect(throws: AttestationError.self) { try await verify(requirement) }
                #expect(error?.code == code)
            }
        }
    }
}
