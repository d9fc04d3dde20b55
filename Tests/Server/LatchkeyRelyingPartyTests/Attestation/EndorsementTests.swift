import Crypto
import Foundation
import Latchkey
import SwiftASN1
import TPM2
import Testing
import X509

@testable import LatchkeyRelyingParty

@Suite("Endorsement certificates and attestation keys") struct EndorsementTests {
    private static let now = Int64(AttestationVectors.time.timeIntervalSince1970)
    private let maker = P256.Signing.PrivateKey()
    private let key = P256.Signing.PrivateKey()

    private func anchors() throws -> AttestationAnchors {
        let root = try AttestationRig.certificate(
            maker.publicKey, subject: AttestationRig.name, by: maker, issuer: AttestationRig.name,
            extensions: Certificate.Extensions {
                Critical(BasicConstraints.isCertificateAuthority(maxPathLength: 0))
            })
        return AttestationAnchors(tpm: try .init(roots: [root]))
    }

    private func endorsement(
        _ extensions: Certificate.Extensions? = nil, start: Date = AttestationRig.time
    ) throws
        -> Data
    {
        try AttestationRig.certificate(
            key.publicKey, subject: DistinguishedName(), by: maker, issuer: AttestationRig.name,
            start: start,
            extensions: try extensions
                ?? AttestationRig.attestationKeyExtensions(purpose: [2, 23, 133, 8, 1]))
    }

    private func expect(
        _ code: AttestationError.Code, _ certificates: [Data], anchors: AttestationAnchors? = nil,
        time: Int64 = now,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let anchors = try anchors ?? self.anchors()
        let error = #expect(throws: AttestationError.self, sourceLocation: sourceLocation) {
            _ = try EndorsementCertificate(certificates, anchors: anchors, time: time)
        }
        #expect(error?.code == code, "\(String(describing: error))", sourceLocation: sourceLocation)
    }

    @Test func `the certificates of software TPMs are accepted under their root`() throws {
        let root = try AttestationAnchors.Group(
            roots: [AttestationVectors.bytes("ek.root"), AttestationVectors.bytes("ek.p256-L2.ca")])
        for (name, others) in [
            ("ek.p384-H3", ["ek.issuer"]), ("ek.rsa2048-L1", ["ek.issuer"]), ("ek.p256-L2", []),
        ] {
            let certificates =
                try others.map { try AttestationVectors.bytes($0) }
                + [
                    AttestationVectors.bytes(name + ".certificate")
                        + Data(repeating: 0xff, count: 64)
                ]
            for anchors in [AttestationAnchors(tpm: root), AttestationAnchors(simulated: root)] {
                let found = try EndorsementCertificate(
                    certificates, anchors: anchors, time: Self.now)
                #expect(found.index == others.count)
                #expect(found.isSimulated == anchors.tpm.roots.isEmpty)
                // The endorsement key of the certificate is the TPM's.
                let area = try PublicArea(unmarshalling: AttestationVectors.bytes(name + ".public"))
                switch (found.key, area.detail) {
                case (.p256(let key), .ecc(_, let point)):
                    #expect(Array(key.x963Representation) == [4] + point.x + point.y)
                case (.p384(let key), .ecc(_, let point)):
                    #expect(Array(key.x963Representation) == [4] + point.x + point.y)
                case (.rsa(let modulus, let exponent), .rsa(_, let expected)):
                    #expect(Array(modulus) == expected)
                    #expect(exponent == Data([1, 0, 1]))
                default: Issue.record("\(name) is a key of another kind")
                }
            }
            // The roots of manufacturers do not vouch for a software TPM.
            let roots = try FileManager.default.contentsOfDirectory(
                at: AttestationVectors.folder.appending(path: "roots"),
                includingPropertiesForKeys: nil)
            let makers = try AttestationAnchors.Group(roots: roots.map { try Data(contentsOf: $0) })
            try expect(
                .untrustedEndorsement, certificates, anchors: AttestationAnchors(tpm: makers))
        }
    }

    @Test func `other certificates are no endorsement certificates`() throws {
        try expect(.wrongEndorsement, [])
        try expect(.wrongEndorsement, [Data([0x30, 0x00])])
        for extensions in [
            try AttestationRig.attestationKeyExtensions(),
            try AttestationRig.attestationKeyExtensions(purpose: [2, 23, 133, 8, 1], without: 1),
            try AttestationRig.attestationKeyExtensions(
                purpose: [2, 23, 133, 8, 1], isAuthority: true),
            Certificate.Extensions(),
        ] {
            try expect(.wrongEndorsement, [endorsement(extensions)])
        }
        try expect(.malformed, [Data](repeating: endorsement(), count: 9))
        try expect(.malformed, [Data(count: 4097)])
        // A certificate of 2049 bytes, as its header says, without padding.
        let large = Data([0x30, 0x82, 0x07, 0xFD]) + Data(count: 2045)
        try expect(.malformed, [Data](repeating: large, count: 4))
        try expect(.wrongEndorsement, [Data](repeating: large.dropLast(), count: 3))
    }

    @Test func `untrusted, forged and expired certificates are refused`() throws {
        let found = try EndorsementCertificate([endorsement()], anchors: anchors(), time: Self.now)
        #expect(try found.attributes == TPMAttributes(HardwareCertificate(endorsement())))
        #expect(found.keyDigest == Data(SHA256.hash(data: key.publicKey.derRepresentation)))
        // The same name, another key.
        try expect(.untrustedEndorsement, [endorsement()], anchors: EndorsementTests().anchors())
        try expect(.untrustedEndorsement, [endorsement()], anchors: AttestationAnchors())
        try expect(
            .untrustedEndorsement, [endorsement()],
            anchors: AttestationAnchors(aik: anchors().tpm, simulated: .none))
        try expect(.certificateExpired, [endorsement()], time: Self.now - 301)
        try expect(.certificateExpired, [endorsement()], time: Self.now + 86_400 * 91)
        let critical = try AttestationRig.attestationKeyExtensions(
            purpose: [2, 23, 133, 8, 1],
            more: [.init(oid: [1, 2, 3], critical: true, value: [5, 0])])
        try expect(.unsupportedCertificate, [endorsement(critical)])
        // A later certificate can be the trusted one.
        let second = try EndorsementCertificate(
            [AttestationVectors.bytes("ek.p256-L2.certificate"), endorsement()], anchors: anchors(),
            time: Self.now)
        #expect(second.index == 1)
    }

    @Test(
        arguments: [
            0x0004_0472, 0x0005_04f2, 0x0005_0432, 0x0007_0472, 0x0001_0472, 0x0005_0462,
            0x0005_0452, 0x0005_0470, 0x0005_0476, 0x0005_0c72,
        ] as [UInt32]) func `an attestation key with other attributes is refused`(
            attributes: UInt32
        )
    {
        expectUnrestricted(
            AttestationRig.area(key.publicKey, attributes: ObjectAttributes(rawValue: attributes)))
    }

    private func expectUnrestricted(_ area: Data, sourceLocation: SourceLocation = #_sourceLocation)
    {
        let error = #expect(throws: AttestationError.self, sourceLocation: sourceLocation) {
            _ = try P256Area(attestationKey: area)
        }
        #expect(error?.code == .unrestrictedAttestationKey, sourceLocation: sourceLocation)
    }

    @Test func `an attestation key is P-256 with ECDSA and SHA-256, without trailing bytes`() throws
    {
        let area = try AttestationVectors.bytes("ek.aik.public")
        #expect(
            try Data(P256Area(attestationKey: area).name.bytes)
                == AttestationVectors.bytes("ek.aik.name"))
        expectUnrestricted(area + Data([0]))
        for count in 0..<area.count { expectUnrestricted(area.prefix(count)) }
        let attributes = ObjectAttributes(rawValue: 0x0005_0472)
        expectUnrestricted(
            AttestationRig.area(key.publicKey, attributes: attributes, scheme: .null))
        expectUnrestricted(
            AttestationRig.area(key.publicKey, attributes: attributes, nameAlgorithm: .sha384))
    }

    @Test func `an issued certificate names the TPM and is accepted`() throws {
        let rig = AttestationRig()
        let issuer = try AttestationKeyIssuer(
            certificate: rig.authorityCertificate(), key: rig.authority)
        let endorsement = try EndorsementCertificate(
            [endorsement()], anchors: anchors(), time: Self.now)
        let attestationKey = try PublicKey(
            x963Representation: rig.attestationKey.publicKey.x963Representation)
        let issued = try issuer.issue(
            for: attestationKey, in: endorsement.attributes, at: AttestationRig.time, days: 90)
        let verified = try AttestationKeyCertificate(
            [issued, issuer.certificate], anchors: rig.anchors(), time: Self.now)
        #expect(verified.publicKey == attestationKey)
        #expect(
            verified.hardware
                == .tpm(manufacturer: "id:49424D00", model: "swtpm", version: "id:20191023"))
        let parsed = try Certificate(derEncoded: Array(issued))
        #expect(parsed.subject.isEmpty)
        #expect(parsed.extensions[oid: .X509ExtensionID.subjectAlternativeName]?.critical == true)
        #expect(parsed.extensions[oid: .X509ExtensionID.extendedKeyUsage]?.critical == false)
        #expect(parsed.extensions[oid: .X509ExtensionID.basicConstraints]?.critical == true)
        #expect(throws: AttestationAnchorError.self) {
            try AttestationKeyIssuer(
                certificate: rig.authorityCertificate(), key: P256.Signing.PrivateKey())
        }
    }
}
