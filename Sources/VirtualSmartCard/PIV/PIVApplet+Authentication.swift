internal import FoundationEssentials

extension PIVApplet {
    /// How commands refer to the management key (SP 800-73-4 Part 1 table 4b).
    static let managementKeyReference: UInt8 = 0x9B
    /// For how long a touch holds for keys with the policy "cached", in seconds.
    private static let touchLasts = 15.0

    /// GENERAL AUTHENTICATE (SP 800-73-4 Part 2 section 3.2.4): P1 is the algorithm, P2 the key.
    mutating func generalAuthenticate(p1: UInt8, p2: UInt8, _ data: [UInt8]) throws(StatusWord) -> Outcome {
        guard let template = try TLV.parse(data)[tag: 0x7C] else { throw .incorrectData }
        let fields = try TLV.parse(template)
        guard p2 != Self.managementKeyReference else { return try authenticateAdministrator(p1: p1, fields) }
        guard let slot = KeySlot(rawValue: p2) else { throw .incorrectParameters }
        return try usePrivateKey(in: slot, p1: p1, fields)
    }

    /// Wraps fields as GENERAL AUTHENTICATE answers them.
    static func dynamicTemplate(_ fields: [TLV]) -> [UInt8] { TLV(0x7C, fields.bytes).bytes }

    // MARK: - The management key

    /// Both ways to prove the management key, two commands each: mutual (the card's witness 80, the host's challenge
    /// 81) and single (the card's challenge 81, the host's response 82).
    private mutating func authenticateAdministrator(p1: UInt8, _ fields: [TLV]) throws(StatusWord) -> Outcome {
        let isDefaultAlgorithm = p1 == 0 && managementKey.algorithm == .tripleDES
        guard p1 == managementKey.algorithm.rawValue || isDefaultAlgorithm else { throw .incorrectData }
        let (witness, challenge, response) = (fields[tag: 0x80], fields[tag: 0x81], fields[tag: 0x82])
        if witness == [] {
            let number = newChallenge()
            return .data(Self.dynamicTemplate([TLV(0x80, try managementKey.encrypt(number))]))
        }
        if witness == nil, challenge == [] {
            return .data(Self.dynamicTemplate([TLV(0x81, newChallenge())]))
        }
        guard let expected = session.challenge else { throw .securityStatusNotSatisfied }
        session.challenge = nil
        if let witness, let challenge {
            guard witness == expected else { throw .securityStatusNotSatisfied }
            let answer = try managementKey.encrypt(challenge)
            session.isAdministrator = true
            return .data(Self.dynamicTemplate([TLV(0x82, answer)]))
        }
        guard let response, response == (try managementKey.encrypt(expected)) else {
            throw .securityStatusNotSatisfied
        }
        session.isAdministrator = true
        return .done
    }

    private mutating func newChallenge() -> [UInt8] {
        let number = environment.randomBytes(managementKey.algorithm.blockLength)
        session.challenge = number
        return number
    }

    /// Yubico's SET MANAGEMENT KEY: the algorithm, 9B, the length and the key. P2 FE, a key that wants to be touched,
    /// is not offered.
    mutating func setManagementKey(p1: UInt8, p2: UInt8, _ data: [UInt8]) throws(StatusWord) -> Outcome {
        guard session.isAdministrator else { throw .securityStatusNotSatisfied }
        guard (p1, p2) == (0xFF, 0xFF) else { throw .incorrectParameters }
        guard
            data.count >= 3, data[1] == Self.managementKeyReference, data.count == 3 + Int(data[2]),
            let algorithm = ManagementKeyAlgorithm(rawValue: data[0]),
            algorithm == .tripleDES || profile.firmware.hasAESManagementKey,
            let key = ManagementKey(algorithm, bytes: Array(data[3...]))
        else { throw .incorrectData }
        managementKey = key
        return .done
    }

    // MARK: - Private keys

    private mutating func usePrivateKey(in slot: KeySlot, p1: UInt8, _ fields: [TLV]) throws(StatusWord) -> Outcome {
        guard let entry = keys[slot] else { throw .referenceNotFound }
        if let status = forcedStatus.removeValue(forKey: slot) { throw status }
        guard p1 == entry.key.algorithm.rawValue else { throw .incorrectData }
        let operation = PrivateKeyOperation(key: entry.key, input: try Self.input(fields))
        switch entry.pinPolicy {
        case .never: break
        case .once: guard session.isPINVerified else { throw .securityStatusNotSatisfied }
        case .always: guard session.isPINFresh else { throw .securityStatusNotSatisfied }
        }
        guard !wantsTouch(entry.touchPolicy) else { return .touchWanted(operation) }
        return .data(Self.dynamicTemplate([TLV(0x82, try operation())]))
    }

    private static func input(_ fields: [TLV]) throws(StatusWord) -> PrivateKeyOperation.Input {
        switch (fields[tag: 0x81], fields[tag: 0x85]) {
        case (let digest?, nil) where !digest.isEmpty: .digest(digest)
        case (nil, let point?): .point(point)
        default: throw .incorrectData
        }
    }

    private func wantsTouch(_ policy: TouchPolicy) -> Bool {
        switch policy {
        case .never: false
        case .always: true
        case .cached:
            lastTouch.map { environment.now().timeIntervalSinceReferenceDate - $0 >= Self.touchLasts } ?? true
        }
    }
}
