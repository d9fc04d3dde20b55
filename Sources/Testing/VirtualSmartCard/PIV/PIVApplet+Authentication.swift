internal import FoundationEssentials

extension PIVApplet {
    /// The key reference of the management key (SP 800-73-4 Part 1 table 4b).
    static let managementKeyReference: UInt8 = 0x9B
    /// The validity of a touch for keys with the policy "cached", in seconds.
    private static let touchLifetime = 15.0

    /// GENERAL AUTHENTICATE (SP 800-73-4 Part 2 section 3.2.4): P1 is the algorithm, P2 the key.
    mutating func generalAuthenticate(p1: UInt8, p2: UInt8, _ data: [UInt8]) throws(StatusWord)
        -> CommandOutcome
    {
        guard let template = try TLV.parse(data)[tag: 0x7C] else { throw .incorrectData }
        let fields = try TLV.parse(template)
        guard p2 != Self.managementKeyReference else {
            return try authenticateAdministrator(p1: p1, fields)
        }
        guard let slot = profile.model.keySlot(p2) else { throw .incorrectParameters }
        return try usePrivateKey(in: slot, p1: p1, fields)
    }

    /// The fields in a dynamic authentication template.
    static func dynamicTemplate(_ fields: [TLV]) -> [UInt8] { TLV(0x7C, fields.bytes).bytes }

    // MARK: - The management key

    /// Authenticates with the management key in two commands: mutually (the card's witness 80, the
    /// host's challenge 81) or one-way (the card's challenge 81, the host's response 82).
    private mutating func authenticateAdministrator(p1: UInt8, _ fields: [TLV]) throws(StatusWord)
        -> CommandOutcome
    {
        let isDefaultAlgorithm = p1 == 0 && managementKey.algorithm == .tripleDES
        guard p1 == managementKey.algorithm.rawValue || isDefaultAlgorithm else {
            throw .incorrectData
        }
        let (witness, challenge, response) = (
            fields[tag: 0x80], fields[tag: 0x81], fields[tag: 0x82]
        )
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

    /// Yubico's SET MANAGEMENT KEY: the algorithm, 9B, the length and the key. P2 FE, a management
    /// key with touch, is not supported.
    mutating func setManagementKey(p1: UInt8, p2: UInt8, _ data: [UInt8]) throws(StatusWord)
        -> CommandOutcome
    {
        guard session.isAdministrator else { throw .securityStatusNotSatisfied }
        guard (p1, p2) == (0xFF, 0xFF) else { throw .incorrectParameters }
        guard
            data.count >= 3, data[1] == Self.managementKeyReference, data.count == 3 + Int(data[2]),
            let algorithm = ManagementKeyAlgorithm(rawValue: data[0]),
            algorithm == .tripleDES
                || profile.model.hasAllAdditions && profile.firmware >= Firmware(5, 4, 2),
            let key = ManagementKey(algorithm, bytes: Array(data[3...]))
        else { throw .incorrectData }
        managementKey = key
        return .done
    }

    // MARK: - Private keys

    private mutating func usePrivateKey(in slot: KeySlot, p1: UInt8, _ fields: [TLV])
        throws(StatusWord)
        -> CommandOutcome
    {
        guard let entry = keys[slot] else {
            throw profile.model == .yubiKey ? .referenceNotFound : .conditionsNotSatisfied
        }
        if let status = forcedStatus.removeValue(forKey: slot) { throw status }
        guard p1 == entry.key.algorithm.rawValue else { throw .incorrectData }
        let key = entry.key
        let operation: PrivateKeyUse
        switch (fields[tag: 0x81], fields[tag: 0x85]) {
        case (let digest?, nil) where !digest.isEmpty:
            operation = { () throws(StatusWord) in
                Self.dynamicTemplate([TLV(0x82, try key.sign(digest))])
            }
        case (nil, let point?):
            operation = { () throws(StatusWord) in
                Self.dynamicTemplate([TLV(0x82, try key.agree(with: point))])
            }
        default: throw .incorrectData
        }
        switch entry.pinPolicy {
        case .never: break
        case .once: guard session.isPINVerified else { throw .securityStatusNotSatisfied }
        case .always: guard session.isPINFresh else { throw .securityStatusNotSatisfied }
        }
        guard !requiresTouch(entry.touchPolicy) else { return .touchRequired(operation) }
        return .data(try operation())
    }

    private func requiresTouch(_ policy: TouchPolicy) -> Bool {
        switch policy {
        case .never: false
        case .always: true
        case .cached:
            lastTouch.map {
                environment.now().timeIntervalSinceReferenceDate - $0 >= Self.touchLifetime
            } ?? true
        }
    }
}

/// The management key, which authenticates the administrator.
struct ManagementKey: Hashable {
    let algorithm: ManagementKeyAlgorithm
    let bytes: [UInt8]

    /// - Returns: nil if the length is wrong for the algorithm.
    init?(_ algorithm: ManagementKeyAlgorithm, bytes: [UInt8]) {
        guard bytes.count == algorithm.keyLength else { return nil }
        self.algorithm = algorithm
        self.bytes = bytes
    }

    /// The factory's key of all YubiKeys: 01 02 … 08, repeated.
    init(factory algorithm: ManagementKeyAlgorithm) {
        self.algorithm = algorithm
        bytes = (0..<algorithm.keyLength).map { UInt8($0 % 8 + 1) }
    }

    var isDefault: Bool { self == ManagementKey(factory: algorithm) }

    /// Encrypts one block.
    func encrypt(_ block: [UInt8]) throws(StatusWord) -> [UInt8] {
        guard
            block.count == algorithm.blockLength,
            let result = BlockCipher.encrypt(block, key: bytes, algorithm: algorithm)
        else { throw .incorrectData }
        return result
    }
}

/// The algorithms of management keys with their numbers in commands (SP 800-78-4 table 6-2).
public enum ManagementKeyAlgorithm: UInt8, CaseIterable, Sendable {
    /// Three-key Triple DES, 24 bytes.
    case tripleDES = 0x03
    /// AES, 16 bytes.
    case aes128 = 0x08
    /// AES, 24 bytes.
    case aes192 = 0x0A
    /// AES, 32 bytes.
    case aes256 = 0x0C

    /// The length of a key in bytes.
    package var keyLength: Int {
        switch self {
        case .aes128: 16
        case .tripleDES, .aes192: 24
        case .aes256: 32
        }
    }

    /// The length of a block, a witness and a challenge in bytes.
    var blockLength: Int { self == .tripleDES ? 8 : 16 }
}
