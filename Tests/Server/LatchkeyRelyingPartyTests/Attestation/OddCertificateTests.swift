import Crypto
import Foundation
import LatchkeySimulators
import LatchkeyTesting
import SwiftASN1
import Testing

@testable import LatchkeyRelyingParty

/// Certificates and files in forms that the standards permit and manufacturers use, each alone.
@Suite("Odd certificates and files", .requires(program: "openssl"))
struct OddCertificateTests {
    private static let now = Int64(AttestationVectors.time.timeIntervalSince1970)

    // MARK: The name of the TPM

    /// A subjectAltName with the attributes of a TPM.
    struct Name: CustomTestStringConvertible {
        let testDescription: String
        let der: [UInt8]
        /// The words of the refusal; nil if the certificate is accepted.
        var refusal: String?

        static func node(_ tag: UInt8, _ parts: [UInt8]...) -> [UInt8] {
            let content = parts.flatMap(\.self)
            let head: [UInt8] = content.count < 0x80 ? [tag] : [tag, 0x81]
            return head + [UInt8(content.count)] + content
        }

        /// An attribute of TCG's arc 2.23.133.2 with a value of any type.
        static func attribute(_ number: UInt8, _ value: String, _ tag: UInt8 = 0x0c) -> [UInt8] {
            let bytes = tag == 0x1e ? value.utf8.flatMap { [0, $0] } : Array(value.utf8)
            return node(0x30, [6, 5, 0x67, 0x81, 5, 2, number], node(tag, bytes))
        }

        static func names(_ sets: [[UInt8]]...) -> [UInt8] {
            node(0x30, sets.flatMap { node(0xa4, node(0x30, $0.flatMap(\.self))) })
        }

        static func sets(_ attributes: [UInt8]...) -> [[UInt8]] {
            attributes.map { node(0x31, $0) }
        }

        static let maker = attribute(1, "id:49424D00")
        static let model = attribute(2, "swtpm")
        static let version = attribute(3, "id:20191023")

        static let encodings: [(String, UInt8)] = [
            ("UTF8String", 0x0c), ("PrintableString", 0x13), ("TeletexString", 0x14),
            ("IA5String", 0x16), ("BMPString", 0x1e),
        ]

        static let forms = [
            Name(
                testDescription: "one RDN with three values",
                der: names([node(0x31, maker, model, version)])),
            Name(
                testDescription: "three names",
                der: names(sets(maker), sets(model), sets(version))),
            Name(
                testDescription: "each attribute twice",
                der: names(sets(maker, model, version), sets(version, model, maker))),
            Name(
                testDescription: "beside names of other kinds",
                der: node(
                    0x30, node(0x82, Array("example.com".utf8)), [0x87, 4, 127, 0, 0, 1],
                    node(0xa4, node(0x30, sets(maker, model, version).flatMap(\.self))))),
        ]

        static let unusable = [
            Name(
                testDescription: "two manufacturers",
                der: names(sets(maker, attribute(1, "id:49465800"), model, version)),
                refusal: "several values for the TPM's manufacturer"),
            Name(
                testDescription: "no model", der: names(sets(maker, version)),
                refusal: "lacks the TPM's model"),
            Name(
                testDescription: "a version that is not ASCII",
                der: names(sets(maker, model, attribute(3, "®"))),
                refusal: "lacks the TPM's version in ASCII"),
            Name(
                testDescription: "a BMPString of an odd length",
                der: names(
                    sets(
                        maker, model,
                        node(0x30, [6, 5, 0x67, 0x81, 5, 2, 3], [0x1e, 3, 0, 49, 0]))),
                refusal: "lacks the TPM's version"),
            Name(
                testDescription: "no directoryName",
                der: node(0x30, node(0x82, Array("example.com".utf8))),
                refusal: "lacks the TPM's manufacturer"),
            Name(
                testDescription: "an indefinite length", der: [0x30, 0x80, 0, 0],
                refusal: "subjectAltName"),
        ]

        static let all: [Name] =
            encodings.map { name, tag in
                let attributes = sets(
                    attribute(1, "id:49424D00", tag), attribute(2, "swtpm", tag),
                    attribute(3, "id:20191023", tag))
                return Name(testDescription: name, der: names(attributes))
            } + forms + unusable
    }

    @Test(arguments: Name.all) func `the name of a TPM is read in each form, or the flaw is named`(
        name: Name
    ) throws {
        let maker = try SyntheticAuthority("Maker")
        let anchors = AttestationAnchors(
            tpm: .init(roots: [try maker.certificate()], intermediates: []))
        let certificates = [try maker.endorsement(name: name.der).der]
        guard let refusal = name.refusal else {
            let found = try EndorsementCertificate(certificates, anchors: anchors, time: Self.now)
            #expect(found.attributes.manufacturer == "id:49424D00")
            #expect(found.attributes.model == "swtpm")
            return
        }
        let error = #expect(throws: AttestationError.self) {
            try EndorsementCertificate(certificates, anchors: anchors, time: Self.now)
        }
        #expect(error?.code == .wrongEndorsement)
        #expect(error?.detail.contains(refusal) == true, "\(error?.detail ?? "")")
        // Another certificate of the request is used.
        let usable = try maker.endorsement().der
        let found = try EndorsementCertificate(
            certificates + [usable], anchors: anchors, time: Self.now)
        #expect(found.index == 1)
    }

    @Test func `certificates that cannot be read are named`() throws {
        let certificates = [Data([0x30, 0x80, 0, 0]), Data([0x30, 0])]
        let error = #expect(throws: AttestationError.self) {
            try EndorsementCertificate(
                certificates, anchors: AttestationAnchors(), time: Self.now)
        }
        #expect(error?.detail.contains("certificate 1: ") == true)
        #expect(error?.detail.contains("certificate 2: ") == true)
    }

    // MARK: Issuers

    @Test func `of several issuers with one name, the one that signed is found`() throws {
        let root = try SyntheticAuthority("Root")
        let (old, new) = (try SyntheticAuthority("Issuer"), try SyntheticAuthority("Issuer", .p384))
        let leaf = try new.endorsement()
        let others = [
            try old.certificate(by: root), try new.certificate(by: root, days: -90...(-30)),
            try new.certificate(by: SyntheticAuthority("Root")), try new.certificate(by: root),
        ]
        let anchor = AttestationAnchors.Group(roots: [try root.certificate()], intermediates: [])
        for start in others.indices {
            let path = try CertificatePath(
                from: leaf, to: anchor, simulated: .none,
                others: Array(others[start...] + others[..<start]), at: Self.now)
            #expect(path.certificates[1] == others[3])
        }
    }

    /// A signature that OpenSSL makes with RSASSA-PSS.
    struct PSS: CustomTestStringConvertible {
        var key = "RSA"
        let hash: String
        var salt = "digest"
        var mask: String?
        var isSupported = true
        var testDescription: String { "\(key) \(hash) \(salt) \(mask ?? "")" }

        static let all = [
            PSS(hash: "sha256"), PSS(hash: "sha384"), PSS(hash: "sha512"),
            PSS(key: "RSA-PSS", hash: "sha256"), PSS(key: "RSA-PSS", hash: "sha512"),
            PSS(hash: "sha256", salt: "20", isSupported: false),
            PSS(hash: "sha256", salt: "max", isSupported: false),
            PSS(hash: "sha384", mask: "sha256", isSupported: false),
            PSS(hash: "sha1", isSupported: false),
        ]
    }

    @Test(arguments: PSS.all) func `signatures with RSASSA-PSS verify, or their form is named`(
        pss: PSS
    ) throws {
        let directory = try TemporaryDirectory()
        let mask = pss.mask.map { "-sigopt rsa_mgf1_md:\($0)" } ?? ""
        let script = """
            set -e
            cd "$1"
            openssl genpkey -quiet -algorithm \(pss.key) -pkeyopt rsa_keygen_bits:2048 -out ca.key
            openssl req -x509 -key ca.key -subj /CN=Root -days 30 -out ca.pem
            openssl x509 -in ca.pem -outform DER -out ca.der
            openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ek.key \
              -subj /CN=EK -out ek.csr
            openssl x509 -req -in ek.csr -CA ca.pem -CAkey ca.key -set_serial 5 -days 30 \
              -\(pss.hash) -sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:\(pss.salt) \
              \(mask) -outform DER -out ek.der
            """
        let shell = Process()
        shell.executableURL = URL(filePath: "/bin/sh")
        shell.arguments = ["-c", script, "sh", directory.path]
        shell.standardError = FileHandle.nullDevice
        try shell.run()
        shell.waitUntilExit()
        try #require(shell.terminationStatus == 0)
        func certificate(_ name: String) throws -> HardwareCertificate {
            try HardwareCertificate(
                Data(contentsOf: URL(filePath: directory.path(of: name))))
        }
        let group = try AttestationAnchors.Group(
            roots: [Data(contentsOf: URL(filePath: directory.path(of: "ca.der")))])
        func path(_ leaf: HardwareCertificate) throws -> CertificatePath {
            try CertificatePath(
                from: leaf, to: group, simulated: .none, others: [],
                at: Int64(Date().timeIntervalSince1970))
        }
        let leaf = try certificate("ek.der")
        guard pss.isSupported else {
            let error = #expect(throws: CertificatePath.Failure.self) { try path(leaf) }
            #expect(error?.cause == .unsupported)
            #expect(error?.detail.contains("RSASSA-PSS") == true, "\(error?.detail ?? "")")
            return
        }
        #expect(try path(leaf).certificates.count == 2)
        var forged = leaf.der
        forged[forged.endIndex - 1] ^= 1
        #expect(throws: CertificatePath.Failure.self) { try path(HardwareCertificate(forged)) }
    }

    // MARK: Files

    @Test func `a part of a file does not affect the others, and text around them is ignored`()
        throws
    {
        let der = try AttestationVectors.bytes("aik.ca")
        func pem(
            _ label: String = "CERTIFICATE", end: String? = nil, line: String = "\n",
            indent: String = "", body: String? = nil
        ) -> String {
            let body = body ?? der.base64EncodedString(options: .lineLength64Characters)
            let lines =
                ["-----BEGIN \(label)-----"]
                + body.split(whereSeparator: \.isNewline).map(String.init)
                + [end ?? "-----END \(label)-----"]
            return lines.map { indent + $0 + line }.joined()
        }
        let padded = (der + Data(count: 100)).base64EncodedString()
        let broken = Data([0x30, 0x82, 0xff, 0xff])
        func expect(_ name: String, _ content: Data, usable: Int, skipped: Int = 0) throws {
            let directory = try TemporaryDirectory()
            let file = directory.path(of: "all.pem")
            try content.write(to: URL(filePath: file))
            let read = try AttestationAnchorError.certificates(inFile: file, areRoots: true)
            #expect(read.usable.map(\.der) == Array(repeating: der, count: usable), "\(name)")
            #expect(read.skipped.count == skipped, "\(name): \(read.skipped)")
        }
        func expect(_ name: String, text: String, usable: Int, skipped: Int = 0) throws {
            try expect(name, Data(text.utf8), usable: usable, skipped: skipped)
        }
        try expect("DOS line ends", text: pem(line: "\r\n"), usable: 1)
        try expect("blanks at line ends", text: pem(line: " \n") + pem(line: "\t\r\n"), usable: 2)
        try expect("indented", text: pem(indent: "    "), usable: 1)
        try expect("a byte order mark", Data([0xef, 0xbb, 0xbf]) + Data(pem().utf8), usable: 1)
        try expect(
            "text", text: "0 s:CN = x\nCertificate:\n\(pem())\n1 s: x\n\(pem())end",
            usable: 2)
        try expect("no line end", Data(pem().utf8.dropLast()), usable: 1)
        try expect("one line", text: pem(body: der.base64EncodedString()), usable: 1)
        try expect("an old label", text: pem("X509 CERTIFICATE"), usable: 1)
        try expect("padding", text: pem(body: padded), usable: 1)
        try expect("no end", text: pem(end: "") + pem(), usable: 1, skipped: 1)
        try expect("no last end", text: pem() + pem(end: ""), usable: 1, skipped: 1)
        try expect(
            "another end", text: pem(end: "-----END KEY-----") + pem(),
            usable: 1, skipped: 1)
        try expect(
            "no Base64", text: pem(body: "!!!!") + pem() + pem(body: "AAA") + pem(),
            usable: 2, skipped: 2)
        try expect("a key", text: pem("PRIVATE KEY") + pem(), usable: 1, skipped: 1)
        try expect("DER", der + Data("\r\n".utf8), usable: 1)
        try expect("DER with padding", der + Data(count: 64), usable: 1)
        try expect("several in DER", der + der + Data([0xff]) + der, usable: 3)
        try expect("a broken one in DER", der + broken, usable: 1, skipped: 1)
    }
}
