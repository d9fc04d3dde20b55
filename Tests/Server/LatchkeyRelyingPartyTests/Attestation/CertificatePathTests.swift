import Crypto
import CryptoExtras
import Foundation
import LatchkeyTesting
import SwiftASN1
import Testing
import X509

@testable import LatchkeyRelyingParty

/// What RFC 5280 section 6.1 permits and manufacturers publish, and the reason of each refusal.
@Suite("Certificate paths of manufacturers", .requires(program: "openssl"))
struct CertificatePathTests {
    private static let now = Int64(AttestationVectors.time.timeIntervalSince1970)

    /// An extension of an intermediate, DER in hexadecimal digits.
    struct Policy: CustomTestStringConvertible {
        let testDescription: String
        let id: ASN1ObjectIdentifier
        let value: [UInt8]
        var isCritical = true
        /// The words of the refusal; nil if the certificate is accepted.
        var refusal: String?

        var x509: Certificate.Extension {
            Certificate.Extension(oid: id, critical: isCritical, value: value[...])
        }

        static let anyPolicy: [UInt8] = [6, 4, 0x55, 0x1d, 0x20, 0]
        static let other: [UInt8] = [6, 3, 0x2a, 3, 4]

        static func sequence(_ parts: [UInt8]...) -> [UInt8] {
            let content = parts.flatMap(\.self)
            return [0x30, UInt8(content.count)] + content
        }

        static let all = [
            Policy(
                testDescription: "certificatePolicies", id: [2, 5, 29, 32],
                value: sequence(sequence(other))),
            Policy(
                testDescription: "certificatePolicies with anyPolicy", id: [2, 5, 29, 32],
                value: sequence(sequence(anyPolicy))),
            Policy(
                testDescription: "inhibitAnyPolicy", id: [2, 5, 29, 54], value: [2, 1, 0]),
            Policy(
                testDescription: "policyConstraints without requireExplicitPolicy",
                id: [2, 5, 29, 36], value: sequence([0x81, 1, 0])),
            Policy(
                testDescription: "policyConstraints with requireExplicitPolicy",
                id: [2, 5, 29, 36], value: sequence([0x80, 1, 0]),
                refusal: "requires a certificate policy"),
            Policy(
                testDescription: "requireExplicitPolicy, not critical", id: [2, 5, 29, 36],
                value: sequence([0x80, 1, 3]), isCritical: false,
                refusal: "requires a certificate policy"),
            Policy(
                testDescription: "policyMappings", id: [2, 5, 29, 33],
                value: sequence(sequence(other, other))),
            Policy(
                testDescription: "policyMappings of anyPolicy", id: [2, 5, 29, 33],
                value: sequence(sequence(other, anyPolicy)), refusal: "maps the policy anyPolicy"),
            Policy(
                testDescription: "nameConstraints", id: [2, 5, 29, 30], value: [0x30, 0],
                refusal: "the critical extension 2.5.29.30 (nameConstraints) is not supported"),
            Policy(
                testDescription: "nameConstraints, not critical", id: [2, 5, 29, 30],
                value: [0x30, 0], isCritical: false),
            Policy(
                testDescription: "an unknown extension", id: [1, 2, 3], value: [5, 0],
                refusal: "the critical extension 1.2.3 is not supported"),
            Policy(
                testDescription: "an unknown extension, not critical", id: [1, 2, 3],
                value: [5, 0], isCritical: false),
        ]
    }

    private func path(
        _ chain: [HardwareCertificate], root: HardwareCertificate, time: Int64 = now
    ) throws -> CertificatePath {
        try CertificatePath(
            from: chain[0], to: .init(roots: [root], intermediates: Array(chain.dropFirst())),
            simulated: .none, others: [], at: time)
    }

    @Test(arguments: Policy.all) func `any policy is acceptable, and other extensions are named`(
        policy: Policy
    ) throws {
        let root = try SyntheticAuthority("Root")
        let issuer = try SyntheticAuthority("Issuer")
        let chain = [
            try issuer.endorsement(),
            try issuer.certificate(
                by: root, extensions: SyntheticAuthority.isAuthority + [policy.x509]),
        ]
        let (rootCertificate, anchor) = (try root.certificate(), chain[1].der)
        guard let refusal = policy.refusal else {
            #expect(try path(chain, root: rootCertificate).certificates.count == 3)
            #expect(try AttestationAnchors.Group(roots: [anchor]).rootCount == 1)
            return
        }
        let error = #expect(throws: CertificatePath.Failure.self) {
            try path(chain, root: rootCertificate)
        }
        #expect(error?.cause == .unsupported && error?.reason == .unsupportedCertificate)
        #expect(error?.detail.contains("‘Issuer’") == true)
        #expect(error?.detail.contains(refusal) == true, "\(error?.detail ?? "")")
        // As an anchor it is named when it is read, and not only at the first refusal.
        let flaw = #expect(throws: AttestationAnchorError.self) {
            try AttestationAnchors.Group(roots: [anchor])
        }
        #expect(flaw?.reason.contains(refusal) == true)
    }

    @Test(arguments: SyntheticAuthority.Kind.allCases)
    func `an authority of each kind of key issues certificates`(
        kind: SyntheticAuthority.Kind
    ) throws {
        let (root, issuer) = (
            try SyntheticAuthority("Root", kind), try SyntheticAuthority("Issuer", kind)
        )
        let chain = [try issuer.endorsement(), try issuer.certificate(by: root)]
        #expect(try path(chain, root: root.certificate()).certificates.count == 3)
        // The same names, other keys.
        let other = try SyntheticAuthority("Root", kind == .p521 ? .p384 : .p521)
        let error = #expect(throws: CertificatePath.Failure.self) {
            try path(chain, root: other.certificate())
        }
        #expect(error?.cause == .unknownIssuer)
        #expect(error?.detail == "‘Issuer’ is not signed with the key of ‘Root’")
    }

    /// Intel's TPMs since the 11th generation have six authorities above the endorsement key.
    @Test func `a path of eight certificates is accepted, and a longer one is named as too long`()
        throws
    {
        for count in 1...9 {
            let authorities = try (0..<count).map { try SyntheticAuthority("CA \($0)") }
            var chain = [try authorities[0].endorsement()]
            for (below, above) in zip(authorities, authorities.dropFirst()) {
                chain.append(try below.certificate(by: above))
            }
            let root = try authorities[count - 1].certificate()
            guard count > CertificatePath.maximumDepth else {
                #expect(try path(chain, root: root).certificates.count == count + 1)
                continue
            }
            let error = #expect(throws: CertificatePath.Failure.self) {
                try path(chain, root: root)
            }
            #expect(error?.cause == .tooLong && error?.reason == .chainTooLong)
            #expect(error?.detail == "there are more than 8 certificates above the first one")
        }
    }

    @Test func `each cause has its own sentence`() throws {
        let root = try SyntheticAuthority("Root")
        let issuer = try SyntheticAuthority("Issuer")
        let (leaf, middle) = (try issuer.endorsement(), try issuer.certificate(by: root))
        func detail(_ chain: [HardwareCertificate], _ anchor: HardwareCertificate) -> String? {
            let error = #expect(throws: CertificatePath.Failure.self) {
                try path(chain, root: anchor)
            }
            return error?.detail
        }
        #expect(
            detail([leaf], try root.certificate())
                == "no certificate is known for ‘Issuer’, which issued a certificate without a name"
        )
        #expect(
            detail([leaf, middle], try SyntheticAuthority("Other").certificate())
                == "no certificate is known for ‘Root’, which issued ‘Issuer’")
        let old = try issuer.certificate(by: root, days: -90...(-30))
        #expect(
            detail([leaf, old], try root.certificate())?.hasPrefix("‘Issuer’ was valid until 20")
                == true)
        #expect(
            detail(
                [leaf, try issuer.certificate(by: root, extensions: [])], try root.certificate())
                == "‘Issuer’ cannot issue a certificate without a name: it is not a CA certificate")
        // The signature algorithm is changed in both places of the certificate, so that it parses.
        let byRSA = try issuer.certificate(by: SyntheticAuthority("Root", .rsa2048))
        var bytes = Array(byRSA.der)
        let sha256: [UInt8] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b]
        for start in bytes.indices.dropLast(9) where Array(bytes[start..<start + 9]) == sha256 {
            bytes[start + 8] = 0x05
        }
        let sha1 = try HardwareCertificate(Data(bytes))
        #expect(
            detail([leaf, sha1], try root.certificate())
                == "‘Issuer’ is signed with SHA-1 with RSA, which is not supported")
    }

    @Test func `of several endorsement certificates, any usable one suffices`() throws {
        let maker = try SyntheticAuthority("Maker")
        let stranger = try SyntheticAuthority("Stranger")
        let anchors = AttestationAnchors(
            tpm: .init(roots: [try maker.certificate()], intermediates: []))
        let usable = try maker.endorsement()
        let p521 = try maker.endorsement(
            of: Certificate.PublicKey(P521.Signing.PrivateKey().publicKey))
        let rsa4096 = try maker.endorsement(of: SyntheticAuthority("", .rsa4096).key.publicKey)
        let unknown = try stranger.endorsement()
        let expired = try maker.endorsement(days: -90...(-30))
        let critical = try maker.endorsement(
            more: [.init(oid: [1, 2, 3], critical: true, value: [5, 0])])
        for others in [[p521], [rsa4096], [unknown], [expired], [critical], [p521, expired]] {
            let found = try EndorsementCertificate(
                others.map(\.der) + [usable.der], anchors: anchors, time: Self.now)
            #expect(found.index == others.count)
        }
        // Without a usable one, the reason is the first one's, and the detail names all.
        for (certificates, code) in [
            ([p521, unknown], AttestationReason.wrongEndorsement),
            ([unknown, expired], .untrustedEndorsement),
            ([expired, critical], .certificateExpired),
            ([critical, unknown], .unsupportedCertificate),
        ] {
            let error = #expect(throws: AttestationError.self) {
                try EndorsementCertificate(
                    certificates.map(\.der), anchors: anchors, time: Self.now)
            }
            #expect(error?.code == code)
            #expect(error?.detail.split(separator: "; ").count == 2, "\(error?.detail ?? "")")
        }
    }
}
