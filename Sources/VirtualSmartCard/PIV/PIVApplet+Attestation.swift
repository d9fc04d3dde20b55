internal import SwiftASN1
internal import X509

extension PIVApplet {
    /// Yubico's ATTEST, since 4.3: a certificate which says that the key in slot P1 was made on this card.
    mutating func attest(p1: UInt8) throws(StatusWord) -> Outcome {
        guard profile.firmware.attests else { throw .unknownInstruction }
        guard let slot = KeySlot(rawValue: p1) else { throw .incorrectParameters }
        guard let entry = keys[slot], let attester = keys[.attestation] else { throw .referenceNotFound }
        guard entry.origin == .generated else { throw .incorrectData }
        let issuer = try attestationCertificate()
        let claims = AttestationClaims(
            slot: slot, key: entry, firmware: profile.firmware, serialNumber: profile.serialNumber,
            certificateNumber: environment.randomBytes(16))
        do {
            return .data(try claims.certificate(issuer: issuer, issuerKey: attester.key))
        } catch {
            throw .internalError
        }
    }

    /// Puts the key and the certificate into slot F9 that the factory puts there. A reset leaves them.
    mutating func installAttestationKey() {
        keys[.attestation] = SlotKey(
            key: .p256(authority.deviceKey), pinPolicy: .once, touchPolicy: .never, origin: .imported)
        objects[KeySlot.attestation.certificateObject] =
            [
                TLV(0x70, authority.deviceCertificate), TLV(0x71, [0]), TLV(0xFE, []),
            ].bytes
    }

    /// The certificate in slot F9, which its owner may have replaced.
    private func attestationCertificate() throws(StatusWord) -> Certificate {
        guard
            let object = objects[KeySlot.attestation.certificateObject], let bytes = try TLV.parse(object)[tag: 0x70],
            let certificate = try? Certificate(derEncoded: bytes)
        else { throw .referenceNotFound }
        return certificate
    }
}
