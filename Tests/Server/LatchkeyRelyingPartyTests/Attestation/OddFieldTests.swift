import Crypto
import Foundation
import SwiftASN1
import Testing

@testable import LatchkeyRelyingParty

/// Endorsement certificates whose fields have forms that manufacturers use and strict parsers refuse,
/// each alone.
@Suite("Odd fields of certificates") struct OddFieldTests {
    private static let now = Int64(AttestationVectors.time.timeIntervalSince1970)

    private static func node(_ tag: UInt8, _ parts: [UInt8]...) -> [UInt8] {
        let content = parts.flatMap(\.self)
        return [tag] + length(content.count) + content
    }

    private static func length(_ count: Int) -> [UInt8] {
        switch count {
        case ..<0x80: [UInt8(count)]
        case ..<0x100: [0x81, UInt8(count)]
        default: [0x82, UInt8(count >> 8), UInt8(count & 0xff)]
        }
    }

    private static func time(_ text: String, _ tag: UInt8 = 0x17) -> [UInt8] {
        node(tag, Array(text.utf8))
    }

    /// The fields of a certificate, DER. Each test changes one.
    struct Fields: Sendable {
        var serial = node(2, [1])
        var start = time("200101000000Z")
        var end = time("99991231235959Z", 0x18)
        /// A subject without attributes, as the standard of endorsement certificates permits.
        var subject = node(0x30)
        /// Between the key and the extensions.
        var unique: [UInt8] = []
        /// The criticality of subjectAltName.
        var criticality: [UInt8] = [1, 1, 0xff]
        var more: [[UInt8]] = []
        /// SubjectPublicKeyInfo; nil for a key on P-256.
        var key: [UInt8]?
        /// After the whole certificate, as in an index of a TPM.
        var padding: [UInt8] = []
    }

    struct Form: Sendable, CustomTestStringConvertible {
        let testDescription: String
        /// The words of the refusal; nil if the certificate is accepted.
        var refusal: String?
        let change: @Sendable (inout Fields) -> Void

        init(
            _ name: String, _ refusal: String? = nil,
            _ change: @escaping @Sendable (inout Fields) -> Void
        ) {
            (testDescription, self.refusal, self.change) = (name, refusal, change)
        }
    }

    private static func more(_ id: [UInt8], _ rest: [UInt8]) -> [UInt8] {
        node(0x30, node(6, id), rest)
    }

    /// An RSA key with a modulus of this size. Its value does not matter here.
    private static func rsa(bytes: Int) -> [UInt8] {
        let modulus = [0, 0xc1] + [UInt8](repeating: 0x55, count: bytes - 1)
        let numbers = node(0x30, node(2, modulus), node(2, [1, 0, 1]))
        let algorithm = node(
            0x30, node(6, [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1]), node(5))
        return node(0x30, algorithm, node(3, [0] + numbers))
    }

    private static let critical: [UInt8] = [1, 1, 0xff]

    static let forms = [
        Form("usual") { _ in },
        Form("a negative serial number") { $0.serial = node(2, [0x80, 1]) },
        Form("the serial number 0") { $0.serial = node(2, [0]) },
        Form("a serial number of 40 bytes") {
            $0.serial = node(2, [UInt8](repeating: 0x7f, count: 40))
        },
        Form("a serial number with leading zeros") { $0.serial = node(2, [0, 0, 0, 1]) },
        Form("valid since 1950") { $0.start = time("500101000000Z") },
        Form("valid since 1999") { $0.start = time("991231235959Z") },
        Form("a GeneralizedTime before 2050") { $0.start = time("20200101000000Z", 0x18) },
        Form("a subject with a name") {
            $0.subject = node(
                0x30, node(0x31, node(0x30, [6, 3, 0x55, 4, 3], node(0x0c, Array("é".utf8)))))
        },
        Form("unique identifiers") { $0.unique = node(0x81, [0, 1]) + node(0x82, [0, 2]) },
        Form("subjectAltName is not critical") { $0.criticality = [] },
        Form("an explicit FALSE") { $0.criticality = [1, 1, 0] },
        Form("an unknown extension") { $0.more = [more([0x2a, 3, 4], node(4, [5, 0]))] },
        Form("an empty extension") { $0.more = [more([0x2a, 3, 4], node(4))] },
        Form("padding of an index") { $0.padding = [UInt8](repeating: 0xff, count: 300) },
        Form("an RSA key of 2048 bits") { $0.key = rsa(bytes: 256) },
        // Each refusal names its cause.
        Form("an unknown critical extension", "critical extension 1.2.3.4") {
            $0.more = [more([0x2a, 3, 4], critical + node(4, [5, 0]))]
        },
        Form("critical nameConstraints", "nameConstraints") {
            $0.more = [more([0x55, 0x1d, 30], critical + node(4, node(0x30)))]
        },
        Form("an extension twice", "occurs twice") {
            $0.more = Array(repeating: more([0x2a, 3, 4], node(4)), count: 2)
        },
        Form("an RSA key of 3072 bits", "RSA with 2048 bits") { $0.key = rsa(bytes: 384) },
        Form("an end before the begin", "ends before it begins") { $0.end = time("190101000000Z") },
        Form("an end in the past", "was valid until") { $0.end = time("210101000000Z") },
        Form("a begin in the future", "is valid from") {
            $0.start = time("21000101000000Z", 0x18)
        },
    ]

    @Test(arguments: forms) func `a field in an odd form is read, or the cause is named`(
        form: Form
    ) throws {
        let maker = P256.Signing.PrivateKey()
        let name = Self.node(
            0x30,
            Self.node(0x31, Self.node(0x30, [6, 3, 0x55, 4, 3], Self.node(0x0c, [0x4d]))))
        var root = Fields()
        (root.subject, root.key) = (name, Array(maker.publicKey.derRepresentation))
        let authority = try SyntheticAuthority("Maker")
        let anchor = try HardwareCertificate(
            Self.certificate(root, like: authority.certificate(), issuer: name, by: maker))
        let anchors = AttestationAnchors(tpm: .init(roots: [anchor], intermediates: []))
        var fields = Fields()
        form.change(&fields)
        let certificate = try Self.certificate(
            fields, like: authority.endorsement(), issuer: name, by: maker)
        let stored = HardwareCertificate.withoutPadding(certificate + Data(fields.padding))
        guard let refusal = form.refusal else {
            let found = try EndorsementCertificate([stored], anchors: anchors, time: Self.now)
            #expect(found.attributes.manufacturer == "id:49424D00")
            return
        }
        let error = #expect(throws: AttestationError.self) {
            try EndorsementCertificate([stored], anchors: anchors, time: Self.now)
        }
        #expect(error?.detail.contains(refusal) == true, "\(error?.detail ?? "")")
    }

    /// A certificate with these fields and the extensions of another one, signed with ECDSA and
    /// SHA-256.
    private static func certificate(
        _ fields: Fields, like usual: HardwareCertificate, issuer: [UInt8],
        by signer: P256.Signing.PrivateKey
    ) throws -> Data {
        var extensions: [[UInt8]] = try usual.extensions.map { found in
            var serializer = DER.Serializer()
            try serializer.serialize(found.id)
            let isName = found.id == [2, 5, 29, 17]
            let criticality = isName ? fields.criticality : found.isCritical ? critical : []
            return node(
                0x30, serializer.serializedBytes, criticality, node(4, Array(found.value)))
        }
        extensions += fields.more
        let algorithm = node(0x30, node(6, [0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2]))
        let body = node(
            0x30, node(0xa0, [2, 1, 2]), fields.serial, algorithm, issuer,
            node(0x30, fields.start, fields.end), fields.subject,
            fields.key ?? Array(usual.publicKeyInfo), fields.unique,
            node(0xa3, node(0x30, extensions.flatMap(\.self))))
        let signature = try signer.signature(for: Data(body)).derRepresentation
        return Data(node(0x30, body, algorithm, node(3, [0] + signature)))
    }
}
