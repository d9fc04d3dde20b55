import Crypto
import Foundation
import Latchkey
import SwiftASN1
import TPM2
import Testing
import X509

@testable import LatchkeyRelyingParty

/// The refusals of statements, keys, policies and attestation keys, and their order.
extension AttestationVerifierTests {
    @Test func `a policy that the branches do not explain is refused`() async throws {
        let finger = try finger()
        // A different approval key, user, order, a branch that is not declared, and one too many.
        let other = AttestationRig.area(
            P256.Signing.PrivateKey().publicKey, attributes: ObjectAttributes(rawValue: 0x0004_0472)
        )
        let hidden = (json: "", digest: PolicyDigest().authValue())
        let policy = { (branches: [(json: String, digest: PolicyDigest)]) in
            PolicyDigest.or(branches.map(\.digest))?.bytes ?? []
        }
        let pin = try pin()
        let rows: [([UInt8], [String])] = [
            (policy([finger, pin]), [try self.finger(key: other).json, pin.json]),
            (policy([finger, pin]), [try self.finger(user: 1001).json, pin.json]),
            (policy([finger, pin]), [pin.json, finger.json]),
            (policy([finger, pin]), [finger.json]),
            (policy([finger, pin, hidden]), [finger.json, pin.json]),
            (policy([finger, hidden]), [finger.json]),
            (finger.digest.bytes, [finger.json, pin.json]),
            (finger.digest.bytes, []), ([], [finger.json]),
            ([UInt8](finger.digest.bytes.prefix(31)), [finger.json]),
            (finger.digest.bytes, [#"{"type":"digest"}"#]),
            (hidden.digest.bytes, [#"{"type":"authvalue"}"#]),
        ]
        for (digest, branches) in rows {
            let statement = try statement(
                0x0004_04b2, policy: digest, presence: Self.presence(branches))
            await expect(.wrongPolicy) { try await verify(statement) }
        }
        for attributes: UInt32 in [0x0004_0432, 0x0004_04b2, 0x0004_0032] {
            await expect(.wrongPolicy) { try await verify(try statement(attributes, [])) }
        }
    }

    @Test(arguments: [0x0005_0472, 0x0006_0472, 0x0004_0462, 0x0004_0052, 0x0004_0480] as [UInt32])
    func `an approval key that can leave its TPM or does more than sign is refused`(
        attributes: UInt32
    ) async throws {
        let branch = try finger(key: rig.approvalArea(attributes))
        await expect(.wrongPolicy) { try await verify(try statement(0x0004_04b2, [branch])) }
    }

    /// Imported, imported with sensitiveDataOrigin set, restricted, decrypting, cleared at reset,
    /// with encrypted duplication, fixedParent alone, and with a reserved bit.
    @Test(
        arguments: [
            0x0004_0480, 0x0004_04a0, 0x0005_0472, 0x0006_0472, 0x0004_0476, 0x0004_0c72,
            0x0004_0470, 0x0004_0462,
            0x0004_0452, 0x0000_0472, 0x0004_0473, 0x8004_0472,
        ] as [UInt32]) func `a key with other attributes is refused`(attributes: UInt32)
        async throws
    {
        await expect(.wrongAttributes) { try await verify(try statement(attributes, [])) }
    }

    @Test func `a statement of another type, magic or length is refused`() async throws {
        var forged = try statement()
        forged.type = 0x8018
        await expect(.wrongType) { try await verify(forged) }
        forged.type = 0x8014
        await expect(.wrongType) { try await verify(forged) }
        forged.magic = 0xff54_4348
        await expect(.wrongMagic) { try await verify(forged) }
        let good = AttestationRig.certInfo(extraData: Data(count: 32), name: [0, 11])
        for certInfo in [Data(), good.prefix(5), good + Data([0]), good.dropLast()] {
            var forged = try statement()
            forged.certInfo = certInfo
            await expect(.malformed) { try await verify(forged) }
        }
    }

    @Test func `a statement about another key, or by another key, is refused`() async throws {
        var forged = try statement()
        forged.name = AttestationRig.tpmName(of: rig.approvalArea())
        await expect(.wrongName) { try await verify(forged) }
        forged = try statement()
        forged.signature = try AttestationRig().signature(Data([1]))
        await expect(.invalidSignature) { try await verify(forged) }
        for signature in [
            Data(), Data([0x30]), Data([0x00, 0x18]), Data(repeating: 0x30, count: 200),
        ] {
            forged.signature = signature
            await expect(.invalidSignature) { try await verify(forged) }
        }
        let statement = try statement()
        await expect(.wrongChallenge) {
            try await verify(statement, key: try AttestationRig().deviceKey)
        }
        let rsa = DevicePublicKey.rs256(
            modulus: Data(repeating: 0xff, count: 256), exponent: Data([3]))
        await expect(.wrongChallenge) { try await verify(statement, key: rsa) }
    }

    @Test func `keys of other kinds are refused`() async throws {
        var forged = try statement()
        for (range, bytes) in [
            (0..<2, [0x00, 0x01]), (10..<12, [0x00, 0x06, 0x00, 0x80, 0x00, 0x43]),
            (12..<14, [0x00, 0x1a]),
            (14..<16, [0x00, 0x0c]), (16..<18, [0x00, 0x04]), (18..<20, [0x00, 0x20, 0x00, 0x0b]),
            (87..<88, [0x00]), (88..<88, [0x00]),
        ] as [(Range<Int>, [UInt8])] {
            var area = try statement().area
            area.replaceSubrange(range, with: bytes)
            forged.area = area
            await expect(.wrongKey) { try await verify(forged) }
        }
        // SHA-384 for the Name.
        forged.area = AttestationRig.area(
            rig.key.publicKey, attributes: ObjectAttributes(rawValue: 0x0004_0072),
            nameAlgorithm: .sha384)
        forged.name = [0x00, 0x0c] + Array(SHA384.hash(data: forged.area))
        await expect(.wrongKey) { try await verify(forged) }
        forged.area = AttestationRig.area(
            P256.Signing.PrivateKey().publicKey, attributes: ObjectAttributes(rawValue: 0x0004_0072)
        )
        forged.name = nil
        await expect(.wrongKey) { try await verify(forged) }
        #expect(try await verify(statement(scheme: .null)).presence == .pin)
    }

    @Test func `the data of WebAuthn must be the server's`() async throws {
        for flags: UInt8 in [0x05, 0x00, 0xc5, 0x47, 0x65] {
            var forged = try statement()
            forged.flags = flags
            await expect(.wrongChallenge) { try await verify(forged) }
        }
        for flags: UInt8 in [0x40, 0x41, 0x45] {
            var forged = try statement()
            forged.flags = flags
            #expect(try await verify(forged).presence == .pin)
        }
        var forged = try statement()
        forged.authenticatorData = Data(count: 30)
        await expect(.wrongChallenge) { try await verify(forged) }
        for wrong in [
            AttestationRig.expectation(challenge: Data(count: 7)),
            AttestationRig.expectation(challenge: Data(count: 65)),
            AttestationRig.expectation(challenge: Data(count: 32)),
            AttestationRig.expectation(origin: "null"),
        ] {
            await expect(.wrongChallenge) { try await verify(try statement(), wrong) }
        }
    }

    @Test func `the creation must match, and be new where required`() async throws {
        var forged = try statement()
        forged.type = 0x801a
        let data = Data(
            TPMWriter(
                UInt32(0), TPM2B([]), UInt8(1), UInt16(11), TPM2B([0, 11]), TPM2B([0, 11]),
                TPM2B(Array(AttestationRig.challenge))
            ).bytes)
        forged.second = Array(SHA256.hash(data: data))
        let new = AttestationRig.expectation(requiresNewKey: true)
        #expect(try await verify(forged).presence == .pin)
        await expect(.wrongCreation) { try await verify(forged, new) }
        forged.creationData = data
        #expect(try await verify(forged, new).presence == .pin)
        forged.creationData = data + Data([0])
        await expect(.wrongCreation) { try await verify(forged) }
        forged.second = Array(SHA256.hash(data: data + Data([0])))
        #expect(try await verify(forged).presence == .pin)
        await expect(.wrongCreation) { try await verify(forged, new) }
        await expect(.wrongCreation) { try await verify(try statement(), new) }
    }

    @Test func `an attestation key without a trusted certificate is refused`() async throws {
        func expectUntrusted(
            _ certificate: Data, anchors: AttestationAnchors? = nil,
            time: Date = AttestationRig.time,
            sourceLocation: SourceLocation = #_sourceLocation
        ) async throws {
            var forged = try statement()
            forged.certificates = [certificate]
            await expect(.untrustedAttestationKey, sourceLocation: sourceLocation) {
                try await verify(forged, anchors: anchors, time: time)
            }
        }
        let good = try rig.attestationKeyCertificate()
        try await expectUntrusted(good, anchors: AttestationAnchors())
        try await expectUntrusted(
            good,
            anchors: AttestationAnchors(
                aik: .init(roots: [AttestationRig().authorityCertificate()])))
        // The roots of manufacturers do not vouch for attestation keys.
        try await expectUntrusted(
            good, anchors: AttestationAnchors(tpm: .init(roots: [rig.authorityCertificate()])))
        try await expectUntrusted(good, time: AttestationRig.time + 86_400 * 91)
        try await expectUntrusted(good, time: AttestationRig.time - 301)
        try await expectUntrusted(rig.attestationKeyCertificate(subject: AttestationRig.name))
        try await expectUntrusted(rig.attestationKeyCertificate(by: P256.Signing.PrivateKey()))
        try await expectUntrusted(Data([0x30, 0x00]))
        for extensions in [
            try AttestationRig.attestationKeyExtensions(purpose: [2, 23, 133, 8, 1]),
            try AttestationRig.attestationKeyExtensions(without: 0),
            try AttestationRig.attestationKeyExtensions(without: 2),
            try AttestationRig.attestationKeyExtensions(isAuthority: true),
            Certificate.Extensions(),
            try AttestationRig.attestationKeyExtensions(more: [
                .init(oid: [1, 2, 3], critical: true, value: [5, 0])
            ]),
        ] {
            try await expectUntrusted(rig.attestationKeyCertificate(extensions: extensions))
        }
        let harmless = try AttestationRig.attestationKeyExtensions(more: [
            .init(oid: [1, 2, 3], critical: false, value: [5, 0])
        ])
        var forged = try statement()
        forged.certificates = [try rig.attestationKeyCertificate(extensions: harmless)]
        #expect(try await verify(forged).presence == .pin)
    }

    /// Each step repairs the first defect, and the next one is reported.
    @Test func `the checks run in the order of the specification`() async throws {
        let foreign = AttestationRig()
        var forged = try statement(0x0005_0472, policy: [1, 2, 3])
        forged.area = AttestationRig.area(
            foreign.key.publicKey, attributes: ObjectAttributes(rawValue: 0x0005_0472),
            policy: [1, 2, 3])
        let goodKey = AttestationRig.area(
            rig.key.publicKey, attributes: ObjectAttributes(rawValue: 0x0005_0472),
            policy: [1, 2, 3])
        let genuine = forged.certificates
        forged.certificates = [
            try foreign.attestationKeyCertificate(by: rig.authority), Data(count: 3),
        ]
        (forged.magic, forged.type, forged.name) = (1, 1, [0, 11])
        (forged.flags, forged.second, forged.creationData) = (
            0, [UInt8](repeating: 0, count: 32), Data([1])
        )
        forged.signature = Data([0x30])
        var requirement = AttestationRequirement(.touch)
        func expectNext(_ code: AttestationError.Code, time: Date = AttestationRig.time)
            async throws
        {
            let statement = forged
            await expect(code) {
                try await verify(statement, AttestationRig.expectation(requirement), time: time)
            }
        }
        forged.format = "packed"
        try await expectNext(.unsupportedFormat)
        forged.format = "tpm"
        try await expectNext(.untrustedAttestationKey)
        forged.certificates = genuine
        try await expectNext(.wrongMagic)
        forged.magic = 0xff54_4347
        try await expectNext(.wrongType)
        forged.type = 0x801a
        try await expectNext(.wrongChallenge)
        forged.flags = 0x45
        try await expectNext(.wrongName)
        forged.name = nil
        try await expectNext(.invalidSignature)
        forged.signature = nil
        try await expectNext(.wrongCreation)
        forged.second = Array(SHA256.hash(data: Data([1])))
        try await expectNext(.wrongKey)
        forged.area = goodKey
        try await expectNext(.wrongAttributes)
        forged.area = try statement(0x0004_0072, policy: [1, 2, 3]).area
        try await expectNext(.wrongPolicy)
        forged.area = try statement().area
        try await expectNext(.insufficientPresence)
        requirement = AttestationRequirement(.presence)
        let statement = forged
        #expect(
            try await verify(statement, AttestationRig.expectation(requirement)).presence == .pin)
    }
}
