import CoreFoundation
import Crypto
import FoundationEssentials
import Glibc
import Latchkey
import SwiftASN1
import TPM2
import Testing
import X509

@testable import LatchkeyRelyingParty

/// The CPU time of the most expensive requests that the verifier and the authority accept from a
/// client.
///
/// The unit is one verification on P-384, the slowest signature of a supported kind. A release
/// build verifies one in 0.65 ms, so that a request with this many units takes less than 30 ms.
@Suite("Cost of attestation requests", .serialized) struct AttestationCostTests {
    /// One request verifies 16 signatures. The rest is parsing, which a debug build does slowly: 45 on
    /// a busy machine.
    private static let maximumUnits = 60.0

    private let name = DistinguishedName(
        (0..<25).map {
            RelativeDistinguishedName(
                RelativeDistinguishedName.Attribute(
                    type: [2, 5, 4, 3], utf8String: "Hostile \($0)"))
        })
    private let authority = P384.Signing.PrivateKey()
    private let key = P256.Signing.PrivateKey()
    private let rig = AttestationRig()

    /// A certificate by ``authority`` that is as long as a request permits.
    private func certificate(
        _ key: Certificate.PublicKey, subject: DistinguishedName, length: Int,
        _ extensions: Certificate.Extensions
    ) throws -> Data {
        func make(filler: Int) throws -> Data {
            var extensions = extensions
            try extensions.append(
                Certificate.Extension(
                    oid: [1, 2, 3, 4], critical: false,
                    value: [UInt8](repeating: 0, count: filler)[...]))
            let certificate = try Certificate(
                version: .v3,
                serialNumber: Certificate.SerialNumber(bytes: [1, 2, 3, UInt8.random(in: 0...255)]),
                publicKey: key, notValidBefore: AttestationRig.time - 300,
                notValidAfter: AttestationRig.time + 86_400,
                issuer: name, subject: subject, signatureAlgorithm: .ecdsaWithSHA384,
                extensions: extensions,
                issuerPrivateKey: Certificate.PrivateKey(authority))
            var serializer = DER.Serializer()
            try certificate.serialize(into: &serializer)
            return Data(serializer.serializedBytes)
        }
        // Signatures on P-384 vary by a few bytes.
        return try make(filler: length - 16 - make(filler: 256).count + 256)
    }

    /// Certificates with the same name and key, so that each one can be the issuer of each other
    /// one.
    private func authorities(_ count: Int, length: Int) throws -> [Data] {
        try (0..<count).map { _ in
            try certificate(
                Certificate.PublicKey(authority.publicKey), subject: name, length: length,
                Certificate.Extensions {
                    Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
                    Critical(KeyUsage(keyCertSign: true))
                })
        }
    }

    private func leaf(purpose: ASN1ObjectIdentifier, length: Int) throws -> Data {
        try certificate(
            Certificate.PublicKey(key.publicKey), subject: DistinguishedName(), length: length,
            AttestationRig.attestationKeyExtensions(purpose: purpose))
    }

    /// The CPU time of this thread in seconds.
    private static var cpuTime: Double {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }

    /// The CPU time of one run. The work must not suspend.
    private static func cost(_ body: () throws -> Void) rethrows -> Double {
        let start = cpuTime
        try body()
        return cpuTime - start
    }

    /// Compares the CPU time with that of one verification on P-384 with its certificate. Both are
    /// measured in turn, and the shortest times count, because other programs on the machine make
    /// the others longer.
    private func expectCheap(_ name: String, _ body: () throws -> Void) throws {
        let certificate = try HardwareCertificate(authorities(1, length: 4096)[0])
        var (unit, cost) = (Double.infinity, Double.infinity)
        for _ in 0..<15 {
            unit = min(
                unit,
                Self.cost {
                    #expect(
                        CertificateKey(publicKeyInfo: certificate.publicKeyInfo)?.isIssuer(
                            of: certificate) == true)
                })
            cost = min(cost, try Self.cost(body))
        }
        let hundredths = { (value: Double) in (value * 100).rounded() / 100 }
        print(
            "\(name): \(hundredths(cost * 1000)) ms of CPU time, \(hundredths(cost / unit)) verifications of",
            "\(hundredths(unit * 1000)) ms")
        #expect(cost / unit < Self.maximumUnits, "\(name)")
    }

    private func code(_ body: () throws -> Void) -> AttestationError.Code? {
        let error = #expect(throws: AttestationError.self) { try body() }
        return error?.code
    }

    @Test func `an activation with five certificates of equal names costs one search`() throws {
        let made = try AttestationIssuer.generate(name: "Example AIK CA", at: AttestationRig.time)
        let server = EndorsementAuthority(
            anchors: AttestationAnchors(tpm: try .init(roots: [rig.authorityCertificate()])),
            issuer: try AttestationIssuer(
                certificate: made.certificate, privateKey: made.privateKey),
            simulatedIssuer: nil, certificateDays: 1, clock: WallClock { AttestationRig.time })
        let area = AttestationRig.area(
            key.publicKey, attributes: ObjectAttributes(rawValue: 0x0005_0472))
        for leaves in [1, 2, 4] {
            let chain =
                try (0..<leaves).map { _ in try leaf(purpose: [2, 23, 133, 8, 1], length: 1638) }
                + authorities(5 - leaves, length: 1638)
            #expect(chain.allSatisfy { (1540...1638).contains($0.count) })
            try expectCheap("activation with \(leaves) endorsements") {
                #expect(
                    code { _ = try server.challenge(endorsement: chain, attestationKey: area) }
                        == .untrustedEndorsement
                )
            }
        }
    }

    /// ``CertificateKey/cost`` counts it as two.
    @Test func `a signature check with P-521 costs less than three with P-384`() throws {
        let p384 = try SyntheticAuthority("A", .p384).certificate()
        let p521 = try SyntheticAuthority("B", .p521).certificate()
        func time(_ certificate: HardwareCertificate) -> Double {
            (0..<15).map { _ in
                Self.cost {
                    #expect(
                        CertificateKey(publicKeyInfo: certificate.publicKeyInfo)?.isIssuer(
                            of: certificate) == true)
                }
            }.min() ?? 0
        }
        let (unit, cost) = (time(p384), time(p521))
        print("P-521: \(cost / unit) verifications with P-384")
        #expect(cost < 3 * unit)
    }

    @Test func `the largest statement costs one search`() throws {
        var forged = ForgedStatement(
            certificates: try [leaf(purpose: [2, 23, 133, 8, 3], length: 2048)]
                + authorities(3, length: 2048),
            area: AttestationRig.area(
                rig.key.publicKey, attributes: ObjectAttributes(rawValue: 0x0004_04b2)))
        forged.signature = Data(count: 70)
        var json = try forged.json(rig)
        json += Data(repeating: 0x20, count: AttestationStatement.maximumBytes - json.count)
        let anchors = try rig.anchors()
        try expectCheap("statement of \(json.count) bytes") {
            guard case .tpm(let statement) = try AttestationStatement(json: json).content else {
                return
            }
            #expect(
                code {
                    _ = try AttestationKeyCertificate(
                        statement.certificates, anchors: anchors,
                        time: Int64(AttestationVectors.time.timeIntervalSince1970))
                } == .untrustedAttestationKey)
        }
    }

    @Test func `the largest policy costs less than one search`() throws {
        let tests = AttestationVerifierTests()
        let set = Data(SHA256.hash(data: Data("fingers".utf8)))
        let branch = try tests.finger(
            requirement: "biometry-current-set", set: set, counter: (tests.counter(), 7))
        let info = Base64URL.encode(
            TPMWriter(
                UInt32(0xff54_4347), UInt16(0x8014), TPM2B([0, 11]),
                TPM2B([UInt8](repeating: 1, count: 32)), UInt64(1),
                UInt32(2), UInt32(3), UInt8(1), UInt64(4), TPM2B([0, 11]), UInt16(0),
                TPM2B(UInt64(7).marshalled)
            ).bytes)
        let more = #","certInfo":"\#(info)","sig":"\#(Base64URL.encode(Data(count: 72)))"}"#
        let json = branch.json.replacing(#""value":7}"#, with: #""value":7"# + more)
        let statement = try tests.statement(
            0x0004_04b2,
            policy: #require(PolicyDigest.or([PolicyDigest](repeating: branch.digest, count: 8)))
                .bytes,
            presence: AttestationVerifierTests.presence([String](repeating: json, count: 8)))
        let bytes = try statement.json(tests.rig)
        let signer = try AttestationKeyCertificate(
            statement.certificates, anchors: tests.rig.anchors(),
            time: Int64(AttestationVectors.time.timeIntervalSince1970))
        try expectCheap("statement with eight counters") {
            guard case .tpm(let parsed) = try AttestationStatement(json: bytes).content else {
                return
            }
            let policy = try DeclaredPolicy(parsed.branches, endsWithAuthValue: false)
            #expect(policy.certifiedCounters.count == 8)
            for (_, _, certification) in policy.certifiedCounters {
                _ = try AttestedContent(certification.certInfo, isCounter: true)
                #expect(!signer.isValid(certification.signature, for: certification.certInfo))
            }
        }
    }
}
