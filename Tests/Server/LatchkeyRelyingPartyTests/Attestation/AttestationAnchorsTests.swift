import Crypto
import Foundation
import Latchkey
import Testing
import X509

@testable import LatchkeyRelyingParty

@Suite("Trust anchors and certificate paths") struct AttestationAnchorsTests {
    private static let roots = AttestationVectors.folder.appending(path: "roots")
    private static let now = Int64(AttestationVectors.time.timeIntervalSince1970)

    private static func certificate(_ name: String) throws -> HardwareCertificate {
        try HardwareCertificate(try AttestationVectors.bytes(name))
    }

    /// Creates a directory with these files, and deletes it afterwards. Its own directory is this
    /// user's, so that no other user can replace it.
    private func withDirectory(_ files: [String: Data], _ body: (String) throws -> Void) throws {
        let own = FileManager.default.temporaryDirectory.appending(path: "anchors-\(UUID())")
        defer { try? FileManager.default.removeItem(at: own) }
        let directory = own.appending(path: "set")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        for (path, content) in files {
            let file = directory.appending(path: path)
            try FileManager.default.createDirectory(
                at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
            try content.write(to: file)
        }
        try body(directory.path)
    }

    private func path(
        _ name: String, _ anchors: AttestationAnchors.Group,
        simulated: AttestationAnchors.Group = .none,
        others: [String] = [],
        time: Int64 = now
    ) throws -> CertificatePath {
        try CertificatePath(
            from: try Self.certificate(name), to: anchors, simulated: simulated,
            others: try others.map(Self.certificate),
            at: time)
    }

    @Test func `all roots of the manufacturers load, those with unsorted names too`() throws {
        var files: [String: Data] = [:]
        for file in try FileManager.default.contentsOfDirectory(atPath: Self.roots.path) {
            files["tpm/roots/" + file] = try Data(contentsOf: Self.roots.appending(path: file))
        }
        try withDirectory(files) { directory in
            let anchors = try AttestationAnchors(directory: directory)
            #expect(anchors.tpm.roots.count == 25)
            #expect(
                anchors.tpm.roots.filter {
                    $0.der.range(of: Data("Nuvoton Technology".utf8)) != nil
                }.count == 11)
            #expect(anchors.piv.roots.isEmpty)
            #expect(anchors.simulated.roots.isEmpty)
        }
    }

    @Test func `PEM files with several certificates and DER files load`() throws {
        let der = try AttestationVectors.bytes("aik.ca")
        let pem =
            "-----BEGIN CERTIFICATE-----\n"
            + der.base64EncodedString(options: .lineLength64Characters)
            + "\n-----END CERTIFICATE-----\n"
        try withDirectory([
            "roots/a.pem": Data((pem + pem).utf8), "intermediates/b.DER": der + Data("\n".utf8),
        ]) {
            directory in
            let group = try AttestationAnchors.Group(directory: directory)
            #expect(group.roots.map(\.der) == [der, der])
            #expect(group.intermediates.map(\.der) == [der])
        }
    }

    @Test(arguments: [
        ("roots/readme.txt", ""), ("roots/a.pem", ""),
        ("roots/a.pem", "-----BEGIN CERTIFICATE-----\nAAAA"),
        ("roots/a.der", "0\u{1}"), ("other/a.der", ""), ("roots/a.pem/b", ""),
    ]) func `an unusable file is skipped with its reason, and an error if no root is left`(
        path: String, content: String
    ) throws {
        let broken = Data(content.utf8)
        try withDirectory([path: broken]) { directory in
            let error = #expect(throws: AttestationAnchorError.self) {
                try AttestationAnchors.Group(directory: directory)
            }
            #expect(error?.path.hasPrefix(directory) == true)
            #expect(throws: AttestationAnchorError.self) {
                try AttestationAnchors(directory: directory)
            }
        }
        let good = try AttestationVectors.bytes("aik.ca")
        try withDirectory([path: broken, "roots/good.der": good]) { directory in
            let group = try AttestationAnchors.Group(directory: directory)
            #expect(group.roots.map(\.der) == [good])
            #expect(group.skipped.count == 1 && group.skipped[0].path.hasPrefix(directory))
            #expect(group.skipped[0].reason.isEmpty == false)
        }
        try withDirectory(["tpm/" + path: broken, "tpm/roots/good.der": good, "other/a": Data()]) {
            let anchors = try AttestationAnchors(directory: $0)
            #expect(anchors.tpm.roots.count == 1)
            #expect(anchors.skipped.count == 2)
        }
        try withDirectory(["tpm/roots/good.der": good, "aik/" + path: broken]) { directory in
            #expect(throws: AttestationAnchorError.self) {
                try AttestationAnchors(directory: directory)
            }
        }
    }

    @Test func `one unusable certificate of a bundle is skipped, and the others are used`() throws {
        func pem(_ der: Data, _ label: String = "CERTIFICATE") -> String {
            "-----BEGIN \(label)-----\n"
                + der.base64EncodedString(options: .lineLength64Characters)
                + "\n-----END \(label)-----\n"
        }
        let (good, leaf) = (
            try AttestationVectors.bytes("aik.ca"),
            try AttestationVectors.bytes("ek.p256-L2.certificate")
        )
        let bundle = pem(good) + pem(leaf) + pem(Data([0x30, 0])) + pem(good, "PRIVATE KEY")
        try withDirectory(["roots/all.pem": Data(bundle.utf8)]) { directory in
            let group = try AttestationAnchors.Group(directory: directory)
            #expect(group.roots.map(\.der) == [good])
            #expect(
                group.skipped.map(\.path)
                    == (2...4).map { "\(directory)/roots/all.pem (part \($0))" })
            #expect(group.skipped[0].reason.contains("not a CA certificate"))
            #expect(group.skipped[2].reason == "it is a PRIVATE KEY")
        }
    }

    @Test func `an unreadable path is reported in the system's words`() throws {
        try withDirectory(["roots/a.pem/b": Data()]) { directory in
            for (path, cause) in [
                (
                    directory + "/none",
                    "\(directory)/none: the directory cannot be listed: No such file or directory"
                ),
                (directory, "\(directory)/roots/a.pem: it is not a regular file"),
            ] {
                let error = #expect(throws: AttestationAnchorError.self) {
                    try AttestationAnchors.Group(directory: path)
                }
                #expect(error?.description == "Could not use the trust anchor \(cause).")
            }
        }
    }

    @Test func `a certificate that is not a CA's is no anchor`() throws {
        #expect(throws: AttestationAnchorError.self) {
            try AttestationAnchors.Group(roots: [AttestationVectors.bytes("ek.p256-L2.certificate")]
            )
        }
    }

    @Test func `endorsement certificates lead to their roots`() throws {
        let local = try AttestationAnchors.Group(
            roots: [AttestationVectors.bytes("ek.root")],
            intermediates: [AttestationVectors.bytes("ek.issuer")])
        for name in ["ek.p384-H3.certificate", "ek.rsa2048-L1.certificate"] {
            let found = try path(name, local)
            #expect(found.certificates.count == 3)
            #expect(!found.isSimulated)
            #expect(try path(name, .none, simulated: local).isSimulated)
            // A root in both groups is a simulator's.
            #expect(try path(name, local, simulated: local).isSimulated)
        }
        let maker = try AttestationAnchors.Group(roots: [AttestationVectors.bytes("ek.p256-L2.ca")])
        #expect(try path("ek.p256-L2.certificate", maker).certificates.count == 2)
    }

    @Test func `the sender's certificates complete a path but never end it`() throws {
        let root = try AttestationAnchors.Group(roots: [AttestationVectors.bytes("ek.root")])
        #expect(
            try path("ek.p384-H3.certificate", root, others: ["ek.issuer"]).certificates.count == 3)
        for others in [[], ["ek.root"], ["aik.ca"]] {
            expectUntrusted { try path("ek.p384-H3.certificate", root, others: others) }
        }
        expectUntrusted {
            try path("ek.p384-H3.certificate", .none, others: ["ek.issuer", "ek.root"])
        }
    }

    @Test func `a chain that is not valid now is refused as expired`() throws {
        let maker = try AttestationAnchors.Group(roots: [AttestationVectors.bytes("ek.p256-L2.ca")])
        for time: Int64 in [946_684_800, 3_000_000_000] {
            let error = #expect(throws: CertificatePath.Failure.self) {
                try path("ek.p256-L2.certificate", maker, time: time)
            }
            #expect(error?.cause == .expired)
            #expect(error?.reason == .certificateExpired)
            #expect(
                error?.detail.contains(time < Self.now ? "is valid from" : "was valid until")
                    == true)
        }
        expectUntrusted { try path("ek.p256-L2.certificate", .none, time: 946_684_800) }
    }

    @Test func `an issuer needs the CA bit, keyCertSign and a sufficient path length`() throws {
        let rig = AttestationRig()
        let leaf = try HardwareCertificate(try rig.attestationKeyCertificate())
        func path(_ root: Data, depth: Int = 0) throws -> CertificatePath {
            let anchors = AttestationAnchors.Group(
                roots: [try HardwareCertificate(root)], intermediates: [])
            return try CertificatePath(
                from: leaf, to: anchors, simulated: .none, others: [], at: Self.now, depth: depth)
        }
        #expect(try path(rig.authorityCertificate()).certificates.count == 2)
        expect(.notAnIssuer) { try path(rig.authorityCertificate(), depth: 1) }
        #expect(
            try path(rig.authorityCertificate(pathLength: nil), depth: 1).certificates.count == 2)
        expect(.tooLong) { try path(rig.authorityCertificate(pathLength: nil), depth: 8) }
        expect(.notAnIssuer) {
            try path(rig.authorityCertificate(usage: .init(digitalSignature: true)))
        }
        expectUntrusted { try path(AttestationRig().authorityCertificate()) }
        // The same name and key, without the CA bit.
        expect(.notAnIssuer) {
            try path(
                AttestationRig.certificate(
                    rig.authority.publicKey, subject: AttestationRig.name, by: rig.authority,
                    issuer: AttestationRig.name, extensions: .init()))
        }
    }

    @Test func `many certificates with one name cost a limited number of signatures`() throws {
        let rig = AttestationRig()
        let leaf = try HardwareCertificate(try rig.attestationKeyCertificate())
        let genuine = try HardwareCertificate(try rig.authorityCertificate())
        let other = try (0..<20).map { _ in
            try HardwareCertificate(try AttestationRig().authorityCertificate())
        }
        func path(_ roots: [HardwareCertificate]) throws -> CertificatePath {
            try CertificatePath(
                from: leaf, to: .init(roots: roots, intermediates: []), simulated: .none,
                others: [], at: Self.now)
        }
        #expect(try path(Array(other.prefix(15)) + [genuine]).certificates.last == genuine)
        expect(.tooManySignatures) { try path(Array(other.prefix(16)) + [genuine]) }
    }

    @Test func `padding after a certificate is removed`() throws {
        let certificate = try AttestationVectors.bytes("ek.rsa2048-L1.certificate")
        #expect(
            HardwareCertificate.withoutPadding(certificate + Data(repeating: 0xff, count: 64))
                == certificate)
        #expect(HardwareCertificate.withoutPadding(certificate) == certificate)
        #expect(throws: HardwareCertificate.Malformed.self) {
            try HardwareCertificate(certificate + Data([0xff]))
        }
    }

    @Test func `a certificate with too many nodes is refused before it is parsed`() {
        let body = Data(
            [UInt8](repeating: 0, count: 2000).enumerated().map {
                $0.offset.isMultiple(of: 2) ? 5 : 0
            })
        let error = #expect(throws: HardwareCertificate.Malformed.self) {
            try HardwareCertificate(Data([0x30, 0x82, 0x07, 0xd0]) + body)
        }
        #expect(error?.description.contains("nodes") == true)
        #expect(throws: HardwareCertificate.Malformed.self) {
            try HardwareCertificate(Data(count: 4097))
        }
    }

    /// The signed part cannot change; the rest is the signature, and a change of it does not verify
    /// either.
    @Test(arguments: ["ek.p256-L2", "aik"])
    func `every prefix and every changed byte of a certificate is refused`(
        name: String
    ) throws {
        let bytes = try AttestationVectors.bytes(name + ".certificate")
        let anchors = try AttestationAnchors.Group(roots: [AttestationVectors.bytes(name + ".ca")])
        func isTrusted(_ bytes: Data) -> Bool {
            guard let certificate = try? HardwareCertificate(bytes) else { return false }
            return
                (try? CertificatePath(
                    from: certificate, to: anchors, simulated: .none, others: [], at: Self.now))
                != nil
        }
        #expect(isTrusted(bytes))
        for count in 0..<bytes.count { #expect(!isTrusted(bytes.prefix(count)), "\(count) bytes") }
        for index in bytes.indices {
            for mask: UInt8 in [0x01, 0x80, 0xff] {
                var changed = bytes
                changed[index] ^= mask
                #expect(!isTrusted(changed), "byte \(index), mask \(mask)")
            }
        }
    }

    private func expectUntrusted(
        sourceLocation: SourceLocation = #_sourceLocation, _ body: () throws -> CertificatePath
    ) {
        expect(.unknownIssuer, sourceLocation: sourceLocation, body)
    }

    private func expect(
        _ cause: CertificatePath.Failure.Cause,
        sourceLocation: SourceLocation = #_sourceLocation, _ body: () throws -> CertificatePath
    ) {
        let error = #expect(throws: CertificatePath.Failure.self, sourceLocation: sourceLocation) {
            try body()
        }
        #expect(error?.cause == cause, "\(error?.detail ?? "")", sourceLocation: sourceLocation)
    }
}
