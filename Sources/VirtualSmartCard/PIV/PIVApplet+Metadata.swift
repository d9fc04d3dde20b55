extension PIVApplet {
    /// Yubico's GET METADATA, since 5.3.
    func getMetadata(p2: UInt8) throws(StatusWord) -> Outcome {
        guard profile.firmware.tellsMetadata else { throw .unknownInstruction }
        switch p2 {
        case Self.pinReference: return .data(Self.metadata(of: pin))
        case Self.pukReference: return .data(Self.metadata(of: puk))
        case Self.managementKeyReference:
            return .data(
                [
                    TLV(0x01, [managementKey.algorithm.rawValue]),
                    TLV(0x02, [0, TouchPolicy.never.rawValue]),
                    TLV(0x05, [managementKey.isDefault ? 1 : 0]),
                ].bytes)
        default:
            guard let slot = KeySlot(rawValue: p2) else { throw .incorrectParameters }
            guard let entry = keys[slot] else { throw .referenceNotFound }
            return .data(
                [
                    TLV(0x01, [entry.key.algorithm.rawValue]),
                    TLV(0x02, [entry.pinPolicy.rawValue, entry.touchPolicy.rawValue]),
                    TLV(0x03, [entry.origin.rawValue]),
                    TLV(0x04, Self.publicKeyFields(entry.key)),
                ].bytes)
        }
    }

    private static func metadata(of secret: CountedSecret) -> [UInt8] {
        [
            TLV(0x01, [0xFF]),
            TLV(0x05, [secret.isDefault ? 1 : 0]),
            TLV(0x06, [UInt8(clamping: secret.limit), UInt8(clamping: secret.attemptsLeft)]),
        ].bytes
    }
}
