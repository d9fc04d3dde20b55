internal import Crypto
package import FoundationEssentials
internal import SwiftASN1
internal import X509

/// The certificate authority of virtual cards, instead of Yubico's: a root certificate, and the
/// attestation key that the cards share.
package struct AttestationAuthority: Sendable {
    /// The root's certificate, in DER.
    package let rootCertificate: [UInt8]
    /// The certificate in slot F9, issued by the root, in DER.
    let deviceCertificate: [UInt8]
    /// The private key in slot F9.
    let deviceKey: P256.Signing.PrivateKey

    /// Creates an authority with new keys and certificates that are valid for ten years.
    package init(now: Date = Date()) throws {
        let rootKey = P256.Signing.PrivateKey()
        deviceKey = P256.Signing.PrivateKey()
        let rootName = try DistinguishedName { CommonName("Virtual PIV Root CA") }
        let deviceName = try DistinguishedName { CommonName("Virtual PIV Attestation") }
        rootCertificate = try Self.certificate(
            of: rootKey, named: rootName, issuer: rootName, issuerKey: rootKey,
            maximumPathLength: 1, now: now)
        deviceCertificate = try Self.certificate(
            of: deviceKey, named: deviceName, issuer: rootName, issuerKey: rootKey,
            maximumPathLength: 0, now: now)
    }

    /// The root's certificate in PEM.
    package var rootCertificatePEM: String {
        PEMDocument(type: "CERTIFICATE", derBytes: rootCertificate).pemString + "\n"
    }

    private static func certificate(
        of key: P256.Signing.PrivateKey, named name: DistinguishedName, issuer: DistinguishedName,
        issuerKey: P256.Signing.PrivateKey, maximumPathLength: Int, now: Date
    ) throws -> [UInt8] {
        try Certificate(
            version: .v3,
            serialNumber: Certificate.SerialNumber(),
            publicKey: Certificate.PublicKey(key.publicKey),
            notValidBefore: now.addingTimeInterval(-60),
            notValidAfter: now.addingTimeInterval(10 * 365 * 86_400),
            issuer: issuer,
            subject: name,
            signatureAlgorithm: .ecdsaWithSHA256,
            extensions: Certificate.Extensions {
                Critical(BasicConstraints.isCertificateAuthority(maxPathLength: maximumPathLength))
            },
            issuerPrivateKey: Certificate.PrivateKey(issuerKey)
        ).derBytes
    }
}

extension Certificate {
    /// The certificate in DER.
    var derBytes: [UInt8] {
        get throws {
            var serializer = DER.Serializer()
            try serializer.serialize(self)
            return serializer.serializedBytes
        }
    }
}

extension PIVApplet {
    /// Yubico's ATTEST, since 4.3: certifies that this card generated the key in slot P1. The
    /// certificate is valid as long as the issuer's certificate.
    mutating func attest(p1: UInt8) throws(StatusWord) -> CommandOutcome {
        guard profile.firmware >= Firmware(4, 3, 0) else { throw .unknownInstruction }
        guard let slot = KeySlot(rawValue: p1) else { throw .incorrectParameters }
        guard let entry = keys[slot], let attester = keys[.attestation] else {
            throw .referenceNotFound
        }
        guard entry.origin == .generated, case .ellipticCurve(let key) = entry.key,
            case .ellipticCurve(let issuerKey) = attester.key
        else { throw .incorrectData }
        let issuer = try attestationCertificate()
        do {
            var serial = DER.Serializer()
            try serial.serialize(profile.serialNumber)
            let certificate = try Certificate(
                version: .v3,
                serialNumber: Certificate.SerialNumber(bytes: environment.randomBytes(16)),
                publicKey: key.certificateKey.publicKey,
                notValidBefore: issuer.notValidBefore,
                notValidAfter: issuer.notValidAfter,
                issuer: issuer.subject,
                subject: DistinguishedName {
                    CommonName("YubiKey PIV Attestation \(String(slot.rawValue, radix: 16))")
                },
                signatureAlgorithm: issuerKey.algorithm == .p256
                    ? .ecdsaWithSHA256 : .ecdsaWithSHA384,
                extensions: Certificate.Extensions([
                    Self.attestationExtension(3, profile.firmware.bytes),
                    Self.attestationExtension(7, serial.serializedBytes),
                    Self.attestationExtension(
                        8, [entry.pinPolicy.rawValue, entry.touchPolicy.rawValue]),
                    // The form factor: a USB-A keychain.
                    Self.attestationExtension(9, [1]),
                ]),
                issuerPrivateKey: issuerKey.certificateKey)
            return .data(try certificate.derBytes)
        } catch {
            throw .internalError
        }
    }

    /// An extension under Yubico's 1.3.6.1.4.1.41482.3: 3 firmware, 7 serial number, 8 policies, 9
    /// form factor (Yubico, "PIV attestation", "Attestation certificate").
    private static func attestationExtension(_ number: UInt, _ value: [UInt8])
        -> Certificate.Extension
    {
        Certificate.Extension(
            oid: [1, 3, 6, 1, 4, 1, 41482, 3, number], critical: false, value: value[...])
    }

    /// Installs the factory's key and certificate in slot F9. A reset keeps them.
    mutating func installAttestationKey() {
        keys[.attestation] = SlotKey(
            key: .ellipticCurve(EllipticCurveKey(authority.deviceKey)), pinPolicy: .once,
            touchPolicy: .never,
            origin: .imported)
        objects[KeySlot.attestation.certificateObject] =
            [
                TLV(0x70, authority.deviceCertificate), TLV(0x71, [0]), TLV(0xFE, []),
            ].bytes
    }

    /// The certificate in slot F9, which the owner can replace.
    private func attestationCertificate() throws(StatusWord) -> Certificate {
        guard
            let object = objects[KeySlot.attestation.certificateObject],
            let bytes = try TLV.parse(object)[tag: 0x70],
            let certificate = try? Certificate(derEncoded: bytes)
        else { throw .referenceNotFound }
        return certificate
    }
}
