internal import SwiftASN1
internal import X509

/// What an attestation says of a key, in Yubico's extensions (PIV attestation, "Attestation certificate").
struct AttestationClaims {
    let slot: KeySlot
    let key: SlotKey
    let firmware: Firmware
    let serialNumber: UInt32
    let certificateNumber: [UInt8]

    /// Makes the certificate, in DER. It holds as long as its issuer's.
    func certificate(issuer: Certificate, issuerKey: EllipticCurveKey) throws -> [UInt8] {
        let signer = issuerKey.certificateKey
        let certificate = try Certificate(
            version: .v3,
            serialNumber: Certificate.SerialNumber(bytes: certificateNumber),
            publicKey: key.key.certificateKey.publicKey,
            notValidBefore: issuer.notValidBefore,
            notValidAfter: issuer.notValidAfter,
            issuer: issuer.subject,
            subject: DistinguishedName {
                CommonName("YubiKey PIV Attestation \(String(slot.rawValue, radix: 16))")
            },
            signatureAlgorithm: issuerKey.algorithm == .p256 ? .ecdsaWithSHA256 : .ecdsaWithSHA384,
            extensions: Certificate.Extensions(extensions()),
            issuerPrivateKey: signer)
        return try certificate.derBytes
    }

    private func extensions() throws -> [Certificate.Extension] {
        var serial = DER.Serializer()
        try serial.serialize(serialNumber)
        return [
            Self.extension(3, firmware.bytes),
            Self.extension(7, serial.serializedBytes),
            Self.extension(8, [key.pinPolicy.rawValue, key.touchPolicy.rawValue]),
            Self.extension(9, [Self.usbAKeychain]),
        ]
    }

    /// The form factor.
    private static let usbAKeychain: UInt8 = 1

    /// An extension under Yubico's 1.3.6.1.4.1.41482.3: 3 firmware, 7 serial number, 8 policies, 9 form factor.
    private static func `extension`(_ number: UInt, _ value: [UInt8]) -> Certificate.Extension {
        Certificate.Extension(oid: [1, 3, 6, 1, 4, 1, 41482, 3, number], critical: false, value: value[...])
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
