import Foundation
import LatchkeyTesting
import SwiftASN1
import Testing
import X509

@testable import LatchkeyRelyingParty

/// The certificates that manufacturers of TPMs publish, from each collection on this machine: the
/// fixtures, Debian's package `ruby-tpm-key-attestation`, keylime's store, and the directories in
/// `LATCHKEY_VENDOR_CERTIFICATES`, separated by colons.
@Suite("Published certificates of TPM manufacturers", .requires(program: "openssl"))
struct VendorCertificateTests {
    private static let now = Int64(AttestationVectors.time.timeIntervalSince1970)

    private static let collections: [String] = {
        let gems = "/usr/share/rubygems-integration/all/gems"
        let names = (try? FileManager.default.contentsOfDirectory(atPath: gems)) ?? []
        let others = ProcessInfo.processInfo.environment["LATCHKEY_VENDOR_CERTIFICATES"] ?? ""
        return [AttestationVectors.folder.appending(path: "roots").path]
            + names.filter { $0.hasPrefix("tpm-key_attestation-") }.map {
                "\(gems)/\($0)/lib/tpm/certificates"
            }
            + ["/var/lib/keylime/tpm_cert_store", "/usr/share/keylime/tpm_cert_store"]
            + others.split(separator: ":").map(String.init)
    }()

    /// Copies all certificate files of the collections below one name each, as an operator would.
    private static func copyFiles(to directory: URL) throws -> Int {
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        var count = 0
        for collection in collections {
            let files = FileManager.default.enumerator(atPath: collection)
            while let file = files?.nextObject() as? String {
                guard [".pem", ".crt", ".cer", ".der"].contains(where: file.lowercased().hasSuffix)
                else { continue }
                count += 1
                let name = "\(count)-\(file.replacing("/", with: "-"))"
                try Data(contentsOf: URL(filePath: "\(collection)/\(file)")).write(
                    to: directory.appending(path: name))
            }
        }
        return count
    }

    @Test func `all load, and a certificate under each one verifies`() throws {
        let own = FileManager.default.temporaryDirectory.appending(path: "makers-\(UUID())")
        defer { try? FileManager.default.removeItem(at: own) }
        let directory = own.appending(path: "set")
        let files = try Self.copyFiles(to: directory.appending(path: "roots"))
        let group = try AttestationAnchors.Group(directory: directory.path)
        for skipped in group.skipped { print("refused:", skipped) }
        #expect(group.skipped.isEmpty)

        var seen: Set<HardwareCertificate> = []
        var refusedAsIntermediate: [String: Int] = [:]
        for certificate in group.roots where seen.insert(certificate).inserted {
            try expectUsable(certificate, asRoot: true)
            if let algorithm = CertificateKey.unsupportedSignature(of: certificate) {
                refusedAsIntermediate[algorithm, default: 0] += 1
            } else {
                try expectUsable(certificate, asRoot: false)
            }
        }
        let refused = refusedAsIntermediate.map { "\($0.value) (\($0.key))" }.joined(
            separator: ", ")
        print(
            "\(files) files: \(group.roots.count) certificates loaded, \(seen.count) distinct,",
            "\(group.skipped.count) refused; usable as roots: \(seen.count), not as intermediates: \(refused)"
        )
        #expect(seen.count >= 25)
        // Only SHA-1 is refused, which an intermediate's signature needs and a root's does not.
        #expect(Set(refusedAsIntermediate.keys).isSubset(of: ["SHA-1 with RSA"]))
    }

    /// Makes an authority with the key kind, the extensions and the signature algorithm of a
    /// published certificate, and verifies an endorsement certificate under it.
    private func expectUsable(_ published: HardwareCertificate, asRoot: Bool) throws {
        let kind = try #require(SyntheticAuthority.Kind(published))
        let copy = try SyntheticAuthority("Copy", kind)
        let extensions = published.extensions.map {
            Certificate.Extension(oid: $0.id, critical: $0.isCritical, value: $0.value)
        }
        let leaf = try copy.endorsement()
        let anchors: AttestationAnchors.Group
        if asRoot {
            let root = try copy.certificate(extensions: extensions)
            anchors = .init(roots: [root], intermediates: [])
        } else {
            let (algorithm, issuer) = try Self.algorithm(of: published)
            let root = try SyntheticAuthority("Copy's root", issuer)
            let intermediate = try copy.certificate(
                by: root, extensions: extensions, with: algorithm)
            anchors = .init(roots: [try root.certificate()], intermediates: [intermediate])
        }
        do {
            let found = try EndorsementCertificate(
                [leaf.der], anchors: AttestationAnchors(tpm: anchors), time: Self.now)
            #expect(!found.isSimulated)
        } catch {
            Issue.record("\(published.subjectText), as a root: \(asRoot): \(error)")
        }
    }

    /// The signature algorithm of a certificate, and a kind of key that can use it.
    private static func algorithm(of certificate: HardwareCertificate) throws
        -> (Certificate.SignatureAlgorithm, SyntheticAuthority.Kind)
    {
        let known:
            [ASN1ObjectIdentifier: (Certificate.SignatureAlgorithm, SyntheticAuthority.Kind)] = [
                [1, 2, 840, 113549, 1, 1, 11]: (.sha256WithRSAEncryption, .rsa2048),
                [1, 2, 840, 113549, 1, 1, 12]: (.sha384WithRSAEncryption, .rsa2048),
                [1, 2, 840, 113549, 1, 1, 13]: (.sha512WithRSAEncryption, .rsa2048),
                [1, 2, 840, 10045, 4, 3, 2]: (.ecdsaWithSHA256, .p256),
                [1, 2, 840, 10045, 4, 3, 3]: (.ecdsaWithSHA384, .p384),
                [1, 2, 840, 10045, 4, 3, 4]: (.ecdsaWithSHA512, .p521),
            ]
        return try #require(known[certificate.signatureAlgorithm])
    }
}
