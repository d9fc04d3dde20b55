import Crypto
import Foundation
import Latchkey
import SwiftASN1
import Testing
import X509

@testable import LatchkeyRelyingParty

@Suite("Attestation by YubiKeys") struct PIVAttestationTests {
    private static let name = AttestationRig.distinguishedName("Yubico PIV Attestation")
    private let root = P256.Signing.PrivateKey()
    private let card = P256.Signing.PrivateKey()
    private let key = P256.Signing.PrivateKey()

    private var rootCertificate: Data {
        get throws {
            try AttestationRig.certificate(
                root.publicKey, subject: AttestationRig.name, by: root, issuer: AttestationRig.name,
                extensions: Certificate.Extensions {
                    Critical(BasicConstraints.isCertificateAuthority(maxPathLength: 1))
                })
        }
    }

    private func cardCertificate(isAuthority: Bool = true, start: Date = AttestationRig.time) throws
        -> Data
    {
        try AttestationRig.certificate(
            card.publicKey, subject: Self.name, by: root, issuer: AttestationRig.name, start: start,
            extensions: Certificate.Extensions {
                Critical(
                    isAuthority
                        ? BasicConstraints.isCertificateAuthority(maxPathLength: 0)
                        : .notCertificateAuthority)
            })
    }

    private func leaf(
        _ subject: String = "YubiKey PIV Attestation 9a", policies: [UInt8]? = [2, 2],
        by signer: P256.Signing.PrivateKey? = nil
    ) throws -> Data {
        var extensions = Certificate.Extensions()
        if let policies {
            try extensions.append(
                Certificate.Extension(
                    oid: [1, 3, 6, 1, 4, 1, 41482, 3, 8], critical: false, value: policies[...]))
        }
        return try AttestationRig.certificate(
            key.publicKey, subject: AttestationRig.distinguishedName(subject), by: signer ?? card,
            issuer: Self.name,
            extensions: extensions)
    }

    private func verify(
        _ certificates: [Data], roots: [Data]? = nil, key: P256.Signing.PrivateKey? = nil,
        requirement: AttestationRequirement = .init(.none), time: Date = AttestationRig.time
    ) async throws -> AttestationVerdict {
        let texts = certificates.map { "\"\(Base64URL.encode($0))\"" }.joined(separator: ",")
        let statement = try AttestationStatement(
            json: Data(#"{"format":"piv","certificates":[\#(texts)]}"#.utf8))
        let point = (key ?? self.key).publicKey.x963Representation
        let verifier = AttestationVerifier(
            anchors: AttestationAnchors(piv: try .init(roots: try roots ?? [rootCertificate])),
            approvalKeys: ListedApprovalKeys([]), clock: WallClock { time })
        return try await verifier.verify(
            statement, of: .es256(try PublicKey(x963Representation: point)),
            for: AttestationRig.expectation(requirement))
    }

    private func expect(
        _ code: AttestationError.Code, sourceLocation: SourceLocation = #_sourceLocation,
        _ body: () async throws -> AttestationVerdict
    ) async {
        let error = await #expect(throws: AttestationError.self, sourceLocation: sourceLocation) {
            _ = try await body()
        }
        #expect(error?.code == code, "\(String(describing: error))", sourceLocation: sourceLocation)
    }

    @Test func `the chain of a virtual YubiKey is accepted`() async throws {
        let leaf = try AttestationVectors.bytes("piv.leaf")
        let key = try #require(
            CertificateKey(publicKeyInfo: HardwareCertificate(leaf).publicKeyInfo).flatMap {
                if case .p256(let key) = $0 {
                    try? PublicKey(x963Representation: key.x963Representation)
                } else {
                    nil
                }
            })
        let root = try AttestationAnchors.Group(roots: [AttestationVectors.bytes("piv.root")])
        let json = try [leaf, AttestationVectors.bytes("piv.f9")].map {
            "\"\(Base64URL.encode($0))\""
        }
        let statement = try AttestationStatement(
            json: Data(#"{"format":"piv","certificates":[\#(json.joined(separator: ","))]}"#.utf8))
        for isSimulated in [false, true] {
            let verifier = AttestationVerifier(
                anchors: isSimulated
                    ? AttestationAnchors(simulated: root) : AttestationAnchors(piv: root),
                approvalKeys: ListedApprovalKeys([]), clock: WallClock { AttestationVectors.time })
            let verdict = try await verifier.verify(
                statement, of: .es256(key), for: AttestationRig.expectation())
            let card = AttestationVerdict.Hardware.yubiKey(firmware: "5.4.3", serial: 12_345_678)
            #expect(verdict.hardware == (isSimulated ? .simulated(card) : card))
            #expect(verdict.presence == .touchAndPIN)
            #expect(verdict.provesPIN == .form)
            #expect(verdict.publicKey == key)
            #expect(verdict.meets(.init(.touch)) == !isSimulated)
            #expect(verdict.meets(.init(.touch, acceptsSimulated: true)))
            #expect(!verdict.meets(.init(.finger, acceptsSimulated: true)))
        }
    }

    @Test(
        arguments: [
            ([1, 1], .none), ([1, 2], .touch), ([1, 3], .none), ([2, 1], .pin),
            ([2, 2], .touchAndPIN), ([3, 3], .pin),
            ([3, 2], .touchAndPIN), ([4, 1], .fingerOrPIN), ([5, 3], .fingerOrPIN),
            ([4, 2], .touch), ([0, 2], .touch),
            ([6, 1], .none), ([2, 9], .pin),
        ] as [([UInt8], AssuranceLevel.EnforcedPresence)])
    func `the policies of the key determine the verdict`(
        policies: [UInt8], presence: AssuranceLevel.EnforcedPresence
    ) async throws {
        let verdict = try await verify([leaf(policies: policies), cardCertificate()])
        #expect(verdict.presence == presence)
        #expect(verdict.meets(.init(.touch)) == [.touch, .touchAndPIN].contains(presence))
        #expect(verdict.meets(.init(.presence)) == (presence != .none))
        #expect(verdict.meets(.init(.hardware)))
    }

    @Test func `a broken chain is refused`() async throws {
        let forger = P256.Signing.PrivateKey()
        await expect(.wrongChain) { try await verify([leaf(by: forger), cardCertificate()]) }
        await expect(.wrongChain) { try await verify([leaf(), leaf()]) }
        await expect(.wrongChain) {
            try await verify([leaf(), cardCertificate(isAuthority: false)])
        }
        await expect(.wrongChain) { try await verify([cardCertificate(), leaf()]) }
    }

    @Test func `a card of another issuer is refused, also one with the same name`() async throws {
        let other = try AttestationRig.certificate(
            P256.Signing.PrivateKey().publicKey, subject: AttestationRig.name,
            by: P256.Signing.PrivateKey(),
            issuer: AttestationRig.name,
            extensions: Certificate.Extensions {
                Critical(BasicConstraints.isCertificateAuthority(maxPathLength: 1))
            })
        await expect(.untrustedEndorsement) {
            try await verify([leaf(), cardCertificate()], roots: [other])
        }
        await expect(.untrustedEndorsement) {
            try await verify([leaf(), cardCertificate()], roots: [])
        }
        await expect(.untrustedEndorsement) {
            try await verify([leaf(), cardCertificate(), rootCertificate], roots: [])
        }
    }

    @Test func `a chain at the wrong time is refused`() async throws {
        await expect(.certificateExpired) {
            try await verify(
                [leaf(), cardCertificate()], time: Date(timeIntervalSince1970: 946_684_800))
        }
        await expect(.certificateExpired) {
            try await verify([leaf(), cardCertificate(start: AttestationRig.time + 600)])
        }
    }

    @Test
    func
        `another key, missing policies and other certificates of the card are refused in this order`()
        async throws
    {
        let other = P256.Signing.PrivateKey()
        await expect(.wrongKey) {
            try await verify([leaf("Other", policies: nil), cardCertificate()], key: other)
        }
        await expect(.wrongPolicy) {
            try await verify([leaf("Other", policies: nil), cardCertificate()])
        }
        await expect(.wrongPolicy) { try await verify([leaf(policies: [2]), cardCertificate()]) }
        await expect(.wrongPolicy) {
            try await verify([leaf(policies: [2, 2, 2]), cardCertificate()])
        }
        await expect(.wrongType) { try await verify([leaf("Other"), cardCertificate()]) }
        await expect(.insufficientPresence) {
            try await verify(
                [leaf(policies: [2, 1]), cardCertificate()], requirement: .init(.touch))
        }
    }

    /// Each step repairs the first defect, and the next one is reported.
    @Test func `the checks of a chain run in the order of the specification`() async throws {
        let other = P256.Signing.PrivateKey()
        let late = AttestationRig.time + 86_400 * 91
        let unsigned = try leaf("Other", policies: nil, by: other)
        let signed = try leaf("Other", policies: nil)
        await expect(.malformed) {
            try await verify([unsigned, Data([0x30, 0])], roots: [], key: other, time: late)
        }
        let card = try cardCertificate()
        await expect(.wrongChain) {
            try await verify([unsigned, card], roots: [], key: other, time: late)
        }
        await expect(.untrustedEndorsement) {
            try await verify([signed, card], roots: [], key: other, time: late)
        }
        await expect(.certificateExpired) {
            try await verify([signed, card], key: other, time: late)
        }
        await expect(.wrongKey) { try await verify([signed, card], key: other) }
        await expect(.wrongPolicy) { try await verify([signed, card]) }
        let stated = try leaf("Other", policies: [2, 1])
        await expect(.wrongType) { try await verify([stated, card], requirement: .init(.touch)) }
        let named = try leaf(policies: [2, 1])
        await expect(.insufficientPresence) {
            try await verify([named, card], requirement: .init(.touch))
        }
        #expect(try await verify([named, card]).presence == .pin)
    }

    @Test func `a statement without the card's certificate is malformed`() async throws {
        await expect(.malformed) { try await verify([leaf()]) }
        await expect(.malformed) { try await verify([leaf(), Data([0x30, 0x00])]) }
        await expect(.malformed) {
            try await verify([leaf(), cardCertificate(), leaf(), leaf(), leaf()])
        }
    }

    @Test func `every changed byte of the attestation is refused`() async throws {
        let (leaf, card) = try (self.leaf(), cardCertificate())
        let root = try rootCertificate
        for index in leaf.indices {
            var changed = leaf
            changed[index] ^= 0x01
            await #expect(throws: AttestationError.self, "byte \(index)") {
                try await verify([changed, card], roots: [root])
            }
        }
    }
}
