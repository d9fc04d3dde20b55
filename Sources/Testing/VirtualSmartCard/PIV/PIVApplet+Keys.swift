extension PIVApplet {
    /// GENERATE ASYMMETRIC KEY PAIR (SP 800-73-4 Part 2 section 3.3.2) with Yubico's policies.
    /// Replaces the slot's key.
    mutating func generateKeyPair(p1: UInt8, p2: UInt8, _ data: [UInt8]) throws(StatusWord)
        -> CommandOutcome
    {
        guard session.isAdministrator else { throw .securityStatusNotSatisfied }
        guard p1 == 0, let slot = profile.model.keySlot(p2) else { throw .incorrectParameters }
        guard let template = try TLV.parse(data)[tag: 0xAC] else { throw .incorrectData }
        let fields = try TLV.parse(template)
        guard let number = fields[tag: 0x80], number.count == 1,
            let algorithm = KeyAlgorithm(rawValue: number[0]), profile.model.generates(algorithm)
        else { throw .incorrectData }
        let (pinPolicy, touchPolicy) = try policies(fields, slot)
        let key = try CardKey.generate(algorithm, random: environment.randomBytes)
        keys[slot] = SlotKey(
            key: key, pinPolicy: pinPolicy, touchPolicy: touchPolicy, origin: .generated)
        return .data(TLV(0x7F49, key.publicKeyFields).bytes)
    }

    /// Yubico's IMPORT KEY: P1 is the algorithm, P2 the slot, tag 06 the scalar.
    mutating func importKey(p1: UInt8, p2: UInt8, _ data: [UInt8]) throws(StatusWord)
        -> CommandOutcome
    {
        guard session.isAdministrator else { throw .securityStatusNotSatisfied }
        guard let algorithm = KeyAlgorithm(rawValue: p1), algorithm != .rsa2048,
            let slot = profile.model.keySlot(p2)
        else { throw .incorrectParameters }
        let fields = try TLV.parse(data)
        guard let scalar = fields[tag: 0x06] else { throw .incorrectData }
        let (pinPolicy, touchPolicy) = try policies(fields, slot)
        let key = try EllipticCurveKey(algorithm, scalar: scalar)
        keys[slot] = SlotKey(
            key: .ellipticCurve(key), pinPolicy: pinPolicy, touchPolicy: touchPolicy,
            origin: .imported)
        return .done
    }

    /// Yubico's MOVE KEY, since 5.7: moves the key in slot P2 to slot P1, or deletes it if P1 is
    /// FF.
    mutating func moveKey(p1: UInt8, p2: UInt8) throws(StatusWord) -> CommandOutcome {
        guard profile.firmware >= Firmware(5, 7, 0) else { throw .unknownInstruction }
        guard session.isAdministrator else { throw .securityStatusNotSatisfied }
        let destination = KeySlot(rawValue: p1)
        guard let source = KeySlot(rawValue: p2), source != .attestation,
            p1 == 0xFF || destination != nil,
            destination != .attestation
        else { throw .incorrectParameters }
        guard let key = keys[source] else { throw .referenceNotFound }
        keys[source] = nil
        if let destination { keys[destination] = key }
        return .done
    }

    /// The policies in a command. 0 or a missing field means the slot's default.
    private func policies(
        _ fields: [TLV], _ slot: KeySlot
    ) throws(StatusWord) -> (PINPolicy, TouchPolicy) {
        func number(_ tag: UInt16) throws(StatusWord) -> UInt8 {
            guard let value = fields[tag: tag] else { return 0 }
            guard value.count == 1 else { throw .incorrectData }
            return value[0]
        }
        let (pin, touch) = (try number(0xAA), try number(0xAB))
        guard
            let pinPolicy = pin == 0
                ? profile.model.defaultPINPolicy(of: slot) : PINPolicy(rawValue: pin),
            let touchPolicy = touch == 0 ? .never : TouchPolicy(rawValue: touch)
        else { throw .incorrectData }
        return (pinPolicy, touchPolicy)
    }
}

extension PIVApplet {
    /// Yubico's GET METADATA, since 5.3.
    func getMetadata(p2: UInt8) throws(StatusWord) -> CommandOutcome {
        guard profile.firmware >= Firmware(5, 3, 0) else { throw .unknownInstruction }
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
            guard let slot = profile.model.keySlot(p2) else {
                throw profile.model == .yubiKey ? .incorrectParameters : .referenceNotFound
            }
            guard let entry = keys[slot] else { throw .referenceNotFound }
            return .data(
                [
                    TLV(0x01, [entry.key.algorithm.rawValue]),
                    TLV(0x02, [entry.pinPolicy.rawValue, entry.touchPolicy.rawValue]),
                    TLV(0x03, [entry.origin.rawValue]),
                    TLV(0x04, entry.key.publicKeyFields),
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

extension PIVApplet {
    /// The maximum length of an object on a YubiKey in bytes.
    private static let largestObject = 3052
    private static let discoveryObject: [UInt8] = [0x7E]
    /// The application's identifier and the PIN usage policy: the application's PIN (SP 800-73-4
    /// Part 1 section 3.3.2).
    private static let discovery = TLV(
        0x7E,
        [
            TLV(0x4F, [0xA0, 0x00, 0x00, 0x03, 0x08, 0x00, 0x00, 0x10, 0x00, 0x01, 0x00]),
            TLV(0x5F2F, [0x40, 0x00]),
        ].bytes
    ).bytes
    /// Printed information, fingerprints and facial image. Reading them requires the PIN (SP
    /// 800-73-4 Part 1 table 2).
    private static let guardedObjects: Set<[UInt8]> = [
        [0x5F, 0xC1, 0x09], [0x5F, 0xC1, 0x03], [0x5F, 0xC1, 0x08],
    ]

    /// GET DATA (SP 800-73-4 Part 2 section 3.1.2).
    mutating func getData(p1: UInt8, p2: UInt8, _ data: [UInt8]) throws(StatusWord)
        -> CommandOutcome
    {
        guard (p1, p2) == (0x3F, 0xFF) else { throw .incorrectParameters }
        guard let tag = try TLV.parse(data)[tag: 0x5C] else { throw .incorrectData }
        if tag == Self.discoveryObject { return .data(Self.discovery) }
        guard session.isPINVerified || !Self.guardedObjects.contains(tag) else {
            throw .securityStatusNotSatisfied
        }
        guard let content = objects[tag] else { throw .notFound }
        return .data(TLV(0x53, content).bytes)
    }

    /// PUT DATA (SP 800-73-4 Part 2 section 3.3.1). Empty content deletes the object.
    mutating func putData(p1: UInt8, p2: UInt8, _ data: [UInt8]) throws(StatusWord)
        -> CommandOutcome
    {
        guard session.isAdministrator else { throw .securityStatusNotSatisfied }
        guard (p1, p2) == (0x3F, 0xFF) else { throw .incorrectParameters }
        let fields = try TLV.parse(data)
        guard let tag = fields[tag: 0x5C], tag.count == 3, tag[0] == 0x5F,
            let content = fields[tag: 0x53]
        else {
            throw .incorrectData
        }
        guard profile.model.stores(tag) else { throw .notFound }
        guard content.count <= Self.largestObject else { throw .noSpace }
        objects[tag] = content.isEmpty ? nil : content
        return .done
    }
}

extension PIVApplet {
    /// The cardholder's unique identifier and the card capability container (SP 800-73-4 Part 1
    /// table 3).
    static let identityObjects: [[UInt8]] = [[0x5F, 0xC1, 0x02], [0x5F, 0xC1, 0x07]]

    /// Installs these objects, as on a new CanoKey (SP 800-73-4 Part 1 tables 8 and 9).
    mutating func installCardIdentity() {
        let federalNumber: [UInt8] = [
            0xD4, 0xE7, 0x39, 0xDA, 0x73, 0x9C, 0xED, 0x39, 0xCE, 0x73, 0x9D, 0x83, 0x68, 0x58,
            0x21, 0x08, 0x42, 0x10,
            0x84, 0x21, 0xC8, 0x42, 0x10, 0xC3, 0xEB,
        ]
        objects[Self.identityObjects[0]] =
            [
                TLV(0x30, federalNumber), TLV(0x34, environment.randomBytes(16)),
                TLV(0x35, Array("20500101".utf8)),
                TLV(0x3E, []), TLV(0xFE, []),
            ].bytes
        objects[Self.identityObjects[1]] =
            [
                TLV(0xF0, environment.randomBytes(21)), TLV(0xF1, [0x21]), TLV(0xF2, [0x21]),
                TLV(0xF3, []),
                TLV(0xF4, [0x00]), TLV(0xF5, [0x10]), TLV(0xF6, []), TLV(0xF7, []), TLV(0xFA, []),
                TLV(0xFB, []),
                TLV(0xFC, []), TLV(0xFD, []), TLV(0xFE, []),
            ].bytes
    }

    /// Yubico's RESET, allowed if the PIN and the PUK are both blocked. Restores the factory state,
    /// except for the attestation key, which stays.
    mutating func reset() throws(StatusWord) -> CommandOutcome {
        guard pin.isBlocked, puk.isBlocked else { throw .conditionsNotSatisfied }
        removeKeys()
        pin = CountedSecret(CardProfile.defaultPIN)
        puk = CountedSecret(CardProfile.defaultPUK)
        managementKey = ManagementKey(factory: profile.managementKeyAlgorithm)
        session = PIVSession(application: .piv)
        if !profile.model.hasAllAdditions { installCardIdentity() }
        return .done
    }
}
