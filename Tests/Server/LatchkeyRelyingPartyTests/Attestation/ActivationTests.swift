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

@Suite(
    "Activation with a software TPM", .softwareTPM(.endorsementCertificate),
    .requires(program: "swtpm_setup"),
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
    static func authority(of tpm: SoftwareTPM) throws -> AttestationAnchors.Group {
        func certificates(_ path: String) throws -> [Data] {
            try PEMDocument.parseMultiple(pemString: String(contentsOfFile: path, encoding: .utf8))
                .map {
                    Data($0.derBytes)
                }
        }
        return try AttestationAnchors.Group(
            roots: certificates(tpm.rootCertificatePath),
            intermediates: certificates(tpm.stateDirectory + "/ca/issuercert.pem"))
    }

    private func withTools<Value>(_ body: (SoftwareTPM, TPMTools) async throws -> Value)
        async throws -> Value
    {
        let tpm = try SoftwareTPM.current
        return try await TemporaryDirectory.withDirectory { directory in
            try await body(tpm, TPMTools(tpm, in: directory))
        }
    }

    private func expectVerified(_ chain: [Data], _ area: Data, isSimulated: Bool) throws {
        let anchors = AttestationAnchors(
            aik: try .init(roots: [issuer.certificate]),
            simulated: try .init(roots: [simulatedIssuer.certificate]))
        let verified = try AttestationKeyCertificate(
            chain, anchors: anchors, time: Int64(Date().timeIntervalSince1970))
        #expect(try verified.publicKey == P256Area(area).publicKey)
        if case .simulated = verified.hardware {
            #expect(isSimulated)
        } else {
            #expect(!isSimulated)
        }
    }

    @Test(arguments: [("0x01C00016", "0x81010016", false), ("0x01C00002", "0x81010001", true)])
    func `the TPM opens a challenge for its endorsement key of P-384 or RSA`(
        index: String, handle: String, needsPolicy: Bool
    ) async throws {
        try await withTools { tpm, tools in
            let area = try await tools.createKey("aik", "|noda|restricted")
            try await tools("tpm2_nvread", index, "-o", tools.path("ek.der"))
            for isSimulated in [true, false] {
                let group = try Self.authority(of: tpm)
                let authority = EndorsementAuthority(
                    anchors: isSimulated
                        ? AttestationAnchors(simulated: group) : AttestationAnchors(tpm: group),
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
            let area = try await tools.createKey("aik", "|noda|restricted")
            try await tools(
                "tpm2_createek", "-G", "ecc", "-c", tools.path("ek.ctx"), "-u", tools.path("ek.pub")
            )
            let endorsementKey = try PublicArea(unmarshalling: tools.bytes("ek.pub").dropFirst(2))
            let point = try #require(endorsementKey.p256Point?.p256Representation)
            let maker = P256.Signing.PrivateKey()
            let root = try AttestationRig.certificate(
                maker.publicKey, subject: AttestationRig.name, by: maker,
                issuer: AttestationRig.name, start: Date(),
                extensions: Certificate.Extensions {
                    Critical(BasicConstraints.isCertificateAuthority(maxPathLength: 0))
                })
            let certificate = try AttestationRig.certificate(
                P256.Signing.PublicKey(x963Representation: point), subject: DistinguishedName(),
                by: maker,
                issuer: AttestationRig.name, start: Date(),
                extensions: AttestationRig.attestationKeyExtensions(purpose: [2, 23, 133, 8, 1]))
            let authority = EndorsementAuthority(
                anchors: AttestationAnchors(tpm: try .init(roots: [root])), issuer: issuer)
            let (challenge, pending) = try authority.challenge(
                endorsement: [certificate], attestationKey: area)
            let secret = try await tools.activate(
                challenge, key: "aik", endorsementKey: tools.path("ek.ctx"), needsPolicy: true)
            try expectVerified(
                try authority.certificate(for: pending, secret: secret), area, isSimulated: false)
        }
    }

    @Test func `the TPM refuses a challenge for another key or with a changed byte`() async throws {
        try await withTools { tpm, tools in
            let area = try await tools.createKey("aik", "|noda|restricted")
            let other = try await tools.createKey("other", "|noda|restricted")
            try await tools("tpm2_nvread", "0x01C00016", "-o", tools.path("ek.der"))
            let authority = EndorsementAuthority(
                anchors: AttestationAnchors(tpm: try Self.authority(of: tpm)), issuer: issuer)
            func challenge(_ area: Data) throws -> EndorsementAuthority.Challenge {
                try authority.challenge(endorsement: [tools.bytes("ek.der")], attestationKey: area)
                    .0
            }
            let right = try challenge(area)
            var blob = right.credentialBlob
            blob[blob.count - 1] ^= 1
            let changed = EndorsementAuthority.Challenge(
                credentialBlob: blob, encryptedSecret: right.encryptedSecret)
            for wrong in [try challenge(other), changed] {
                let error = await #expect(throws: TPMTools.Failure.self) {
                    try await tools.activate(
                        wrong, key: "aik", endorsementKey: "0x81010016", needsPolicy: false)
                }
                // TPM_RC_INTEGRITY of the first parameter.
                #expect(error?.text.contains("0x1DF") == true, "\(error?.text ?? "")")
            }
            #expect(
                try await tools.activate(
                    right, key: "aik", endorsementKey: "0x81010016", needsPolicy: false
                ).count
                    == 32)
        }
    }

    @Test func `a key is attested by the certified attestation key`() async throws {
        try await withTools { tpm, tools in
            let area = try await tools.createKey("aik", "|noda|restricted")
            let key = try await tools.createKey("key", "|noda")
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
            let (certInfo, signature) = try await tools.certifyCreation(
                of: "key", by: "aik", qualifyingData: token)
            let object = CBOR.map([
                ("fmt", .text("tpm")),
                (
                    "attStmt",
                    .map([
                        ("alg", .negative(7)), ("sig", .bytes(signature)), ("ver", .text("2.0")),
                        ("x5c", .array(chain.map(CBOR.bytes))), ("pubArea", .bytes(key)),
                        ("certInfo", .bytes(certInfo)),
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
                    for: AttestationExpectation(
                        challenge: token, binding: .qualifyingData, requirement: requirement))
            }
            let verdict = try await verify(.init(.hardware, acceptsSimulated: true))
            #expect(verdict.isSimulated)
            #expect(verdict.presence == AssuranceLevel.EnforcedPresence.none)
            for (requirement, code) in [
                (AttestationRequirement(.hardware), AttestationError.Code.simulated),
                (.init(.presence, acceptsSimulated: true), .insufficientPresence),
                (.init(.finger, acceptsSimulated: true), .insufficientPresence),
            ] {
                let error = await #expect(throws: AttestationError.self) {
                    try await verify(requirement)
                }
                #expect(error?.code == code)
            }
        }
    }
}

extension TPMTools {
    fileprivate func activate(
        _ challenge: EndorsementAuthority.Challenge, key: String, endorsementKey: String,
        needsPolicy: Bool
    ) async throws -> Data {
        try await activate(
            credentialBlob: challenge.credentialBlob, encryptedSecret: challenge.encryptedSecret,
            key: key,
            endorsementKey: endorsementKey, needsPolicy: needsPolicy)
    }
}
