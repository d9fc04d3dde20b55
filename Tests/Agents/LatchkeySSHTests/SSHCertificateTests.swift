import Crypto
import Foundation
import Latchkey
import Testing

@testable import LatchkeySSH

/// Files with the certificate of a user's key.
struct SSHCertificateTests {
    /// The fields of a certificate, in their order.
    private func blob(
        algorithm: String = SSHCertificate.algorithm, type: UInt32 = 1,
        keyID: [UInt8] = Array("ada".utf8), start: UInt64 = 0, end: UInt64 = .max
    ) -> [UInt8] {
        var (writer, names) = (SSHWriter(), SSHWriter())
        names.string("ada")
        writer.string(algorithm)
        writer.string([UInt8](repeating: 5, count: 32))
        writer.string("nistp256")
        writer.string(P256.Signing.PrivateKey().publicKey.x963Representation)
        writer.raw([UInt8](repeating: 0, count: 8))
        writer.uint32(type)
        writer.string(keyID)
        writer.string(names.bytes)
        for time in [start, end] { writer.raw(withUnsafeBytes(of: time.bigEndian, Array.init)) }
        for _ in 0..<3 { writer.string("") }
        writer.string(SampleServer().blob)
        writer.string("signature")
        return writer.bytes
    }

    private func line(_ blob: [UInt8]) -> String {
        "\(SSHCertificate.algorithm) \(Data(blob).base64EncodedString())"
    }

    @Test func `a file is read in the forms that OpenSSH reads`() throws {
        let blob = blob()
        let line = line(blob)
        for text in [
            line, "\(line)\n", "\(line)\r\n", "\(line) a comment\n", "\u{FEFF}\(line)\n",
            "# a comment\n\(line)\n", "\n \n\(line)\n", "  \(line)\n",
            "\u{FEFF}# a\r\n\r\n\(line)\r\n",
            "\(line)\nssh-ed25519 AAAA\n", line.replacing(" ", with: "\t"),
            "\(line) caf\u{FFFD}\n",
        ] {
            #expect(try SSHCertificate(file: text).blob == blob, "\(text.debugDescription)")
        }
    }

    @Test func `a key ID can be any bytes`() throws {
        for id: [UInt8] in [[], [0xE9, 0x61], Array("é".utf8), [0, 10, 0x1B]] {
            #expect(throws: Never.self) { try SSHCertificate(blob(keyID: id)) }
        }
        #expect(try SSHCertificate(blob(keyID: [0x61, 0xE9])).keyID == "a\u{FFFD}")
    }

    @Test func `a file without a usable certificate is refused with its cause`() throws {
        let own = blob()
        for (text, words) in [
            ("", "does not begin with"), ("# only a comment\n", "does not begin with"),
            ("ssh-ed25519 AAAA\n\(line(own))", "does not begin with"),
            (SSHCertificate.algorithm, "does not begin with"),
            ("\(SSHCertificate.algorithm) !!!", "is not base64"),
            (
                line(blob(algorithm: "ssh-ed25519-cert-v01@openssh.com")),
                "is not a certificate of a P-256 key"
            ),
            (line(blob(type: 2)), "is not a user certificate"),
            (line(Array(own.dropLast(3))), "the data ends early"),
            (line(own + [0]), "1 bytes follow the data"),
        ] {
            let error = #expect(throws: SSHFormatError.self) { try SSHCertificate(file: text) }
            if let error { #expect("\(error)".contains(words), "\(error)") }
        }
    }

    @Test func `the first and the last second of the validity are known`() throws {
        let certificate = try SSHCertificate(blob(start: 500, end: 1000))
        for (time, validity) in [
            (0, .notYet), (499, .notYet), (500, .valid), (999, .valid), (1000, .expired),
            (1001, .expired),
        ] as [(UInt64, SSHCertificate.Validity)] {
            #expect(certificate.validity(at: time) == validity, "\(time)")
        }
        let unlimited = try SSHCertificate(blob())
        #expect(unlimited.validity(at: 0) == .valid)
        #expect(unlimited.validity(at: UInt64.max - 1) == .valid)
    }
}
