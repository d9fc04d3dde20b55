extension PIVApplet {
    /// GENERATE ASYMMETRIC KEY PAIR (SP 800-73-4 Part 2 section 3.3.2) with Yubico's policies. A key that was in the
    /// slot is gone.
    mutating func generateKeyPair(p1: UInt8, p2: UInt8, _ data: [UInt8]) throws(StatusWord) -> Outcome {
        guard session.isAdministrator else { throw .securityStatusNotSatisfied }
        guard p1 == 0, let slot = KeySlot(rawValue: p2) else { throw .incorrectParameters }
        guard let template = try TLV.parse(data)[tag: 0xAC] else { throw .incorrectData }
        let fields = try TLV.parse(template)
        guard let number = fields[tag: 0x80], number.count == 1,
            let algorithm = EllipticCurveKey.Algorithm(rawValue: number[0])
        else { throw .incorrectData }
        let (pinPolicy, touchPolicy) = try Self.policies(fields, slot)
        let key = try EllipticCurveKey.generate(algorithm, random: environment.randomBytes)
        keys[slot] = SlotKey(key: key, pinPolicy: pinPolicy, touchPolicy: touchPolicy, origin: .generated)
        return .data(TLV(0x7F49, Self.publicKeyFields(key)).bytes)
    }

    /// Yubico's IMPORT KEY: P1 is the algorithm, P2 the slot, and tag 06 holds the scalar.
    mutating func importKey(p1: UInt8, p2: UInt8, _ data: [UInt8]) throws(StatusWord) -> Outcome {
        guard session.isAdministrator else { throw .securityStatusNotSatisfied }
        guard let algorithm = EllipticCurveKey.Algorithm(rawValue: p1), let slot = KeySlot(rawValue: p2) else {
            throw .incorrectParameters
        }
        let fields = try TLV.parse(data)
        guard let scalar = fields[tag: 0x06] else { throw .incorrectData }
        let (pinPolicy, touchPolicy) = try Self.policies(fields, slot)
        let key = try EllipticCurveKey(algorithm, scalar: scalar)
        keys[slot] = SlotKey(key: key, pinPolicy: pinPolicy, touchPolicy: touchPolicy, origin: .imported)
        return .done
    }

    /// Yubico's MOVE KEY, since 5.7: from slot P2 to slot P1, or away for good when P1 is FF.
    mutating func moveKey(p1: UInt8, p2: UInt8) throws(StatusWord) -> Outcome {
        guard profile.firmware.isFifthSeventh else { throw .unknownInstruction }
        guard session.isAdministrator else { throw .securityStatusNotSatisfied }
        let destination = KeySlot(rawValue: p1)
        guard let source = KeySlot(rawValue: p2), source != .attestation, p1 == 0xFF || destination != nil,
            destination != .attestation
        else { throw .incorrectParameters }
        guard let key = keys[source] else { throw .referenceNotFound }
        keys[source] = nil
        if let destination { keys[destination] = key }
        return .done
    }

    /// The public key as GENERATE and GET METADATA tell it.
    static func publicKeyFields(_ key: EllipticCurveKey) -> [UInt8] { TLV(0x86, key.publicPoint).bytes }

    /// The policies that a command asks for. 0 and nothing mean the slot's own.
    private static func policies(
        _ fields: [TLV], _ slot: KeySlot
    ) throws(StatusWord) -> (PINPolicy, TouchPolicy) {
        func number(_ tag: UInt16) throws(StatusWord) -> UInt8 {
            guard let value = fields[tag: tag] else { return 0 }
            guard value.count == 1 else { throw .incorrectData }
            return value[0]
        }
        let (pin, touch) = (try number(0xAA), try number(0xAB))
        guard
            let pinPolicy = pin == 0 ? slot.defaultPINPolicy : PINPolicy(rawValue: pin),
            let touchPolicy = touch == 0 ? .never : TouchPolicy(rawValue: touch)
        else { throw .incorrectData }
        return (pinPolicy, touchPolicy)
    }
}
