import Crypto
import FoundationEssentials
import Latchkey
import SwiftASN1
import Testing
import X509

@testable import LatchkeyPKCS11

@Suite struct PIVTests {
    @Test(
        arguments: [
            ("9a", [1]), ("9c", [2]), ("9d", [3]), ("9e", [4]), ("82", [5]), ("95", [24]),
        ] as [(String, [UInt8])])
    func `a slot has the CKA_ID of ykcs11`(_ name: String, _ id: [UInt8]) throws {
        let slot = try #require(PIVSlot(name))
        #expect(Array(slot.id) == id)
        #expect(slot.description == name)
    }

    @Test(arguments: ["", "9", "9b", "96", "81", "f9", "9a0", "zz", "+9"])
    func `text that is not a slot is refused`(_ name: String) {
        #expect(PIVSlot(name) == nil)
    }

    @Test func `a policy gets only slots that enforce it`() throws {
        #expect(PIVSlot.candidates(for: .none) == [.cardAuthentication])
        #expect(PIVSlot.candidates(for: .pin).first == .signature)
        let reusing = try #require(AccessPolicy(.pin, reuseSeconds: 10))
        #expect(!PIVSlot.candidates(for: reusing).contains(.signature))
        for policy in [AccessPolicy.pin, reusing] {
            #expect(!PIVSlot.candidates(for: policy).contains(.cardAuthentication))
            #expect(!PIVSlot.candidates(for: policy).contains(.keyManagement))
        }
    }

    @Test func `an attestation contains the policies of its key`() throws {
        let (key, certificate, issuer) = try chain(policies: [0x03, 0x02])
        let attestation = try PIVAttestation(of: key, certificate: certificate, issuer: issuer)
        #expect(attestation.pin == .always)
        #expect(attestation.touch == .always)
        #expect(attestation.certificates == [certificate, issuer])
    }

    @Test func `unknown policies are nil`() throws {
        for policies: [UInt8] in [[], [3], [9, 9], [1, 2, 3]] {
            let (key, certificate, issuer) = try chain(policies: policies)
            let attestation = try PIVAttestation(of: key, certificate: certificate, issuer: issuer)
            #expect(attestation.pin == nil)
            #expect(attestation.touch == nil)
        }
    }

    @Test func `an attestation of another key or from another card is refused`() throws {
        let (key, certificate, issuer) = try chain(policies: [3, 2])
        let (stranger, _, strangeIssuer) = try chain(policies: [3, 2])
        #expect(throws: (any Error).self) {
            try PIVAttestation(of: stranger, certificate: certificate, issuer: issuer)
        }
        #expect(throws: (any Error).self) {
            try PIVAttestation(of: key, certificate: certificate, issuer: strangeIssuer)
        }
        #expect(throws: (any Error).self) {
            try PIVAttestation(of: key, certificate: Data(certificate.dropLast()), issuer: issuer)
        }
    }

    /// A certificate for a new key, as a YubiKey's slot f9 would issue it.
    private func chain(policies: [UInt8]) throws -> (PublicKey, certificate: Data, issuer: Data) {
        let card = Certificate.PrivateKey(P256.Signing.PrivateKey())
        let key = P256.Signing.PrivateKey()
        let issuerName = try DistinguishedName { CommonName("Yubico PIV Attestation") }
        let subject = try DistinguishedName { CommonName("YubiKey PIV Attestation 9a") }
        let issuer = try certificate(card.publicKey, issuerName, issuerName, card, [])
        let extensions =
            policies.isEmpty
            ? []
            : [
                Certificate.Extension(
                    oid: [1, 3, 6, 1, 4, 1, 41482, 3, 8], critical: false, value: policies[...])
            ]
        let attesting = try certificate(.init(key.publicKey), subject, issuerName, card, extensions)
        return (
            try PublicKey(x963Representation: key.publicKey.x963Representation), attesting, issuer
        )
    }

    private func certificate(
        _ key: Certificate.PublicKey, _ subject: DistinguishedName, _ issuer: DistinguishedName,
        _ signer: Certificate.PrivateKey, _ extensions: [Certificate.Extension]
    ) throws -> Data {
        let certificate = try Certificate(
            version: .v3, serialNumber: .init(), publicKey: key,
            notValidBefore: Date(timeIntervalSince1970: 0),
            notValidAfter: Date(timeIntervalSince1970: 4_000_000_000), issuer: issuer,
            subject: subject,
            signatureAlgorithm: .ecdsaWithSHA256, extensions: try .init(extensions),
            issuerPrivateKey: signer)
        var serializer = DER.Serializer()
        try serializer.serialize(certificate)
        return Data(serializer.serializedBytes)
    }
}
