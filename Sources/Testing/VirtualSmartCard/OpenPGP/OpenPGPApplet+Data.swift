extension OpenPGPApplet {
    /// The application's identifier (section 4.2.1): version 3.4, manufacturer F1D0 and the serial
    /// number.
    var identifier: [UInt8] {
        [0xD2, 0x76, 0x00, 0x01, 0x24, 0x01, 0x03, 0x04, 0xF1, 0xD0] + profile.serialBytes + [0, 0]
    }

    /// Name, language, sex, login data, address of the public key; fingerprints of the keys and of
    /// their authorities; times of generation (section 4.4.1).
    static let factoryObjects: [UInt16: [UInt8]] = {
        let texts: [UInt16: [UInt8]] = [
            0x5B: [], 0x5F2D: Array("en".utf8), 0x5F35: Array("9".utf8), 0x5E: [], 0x5F50: [],
        ]
        let fingerprints = (0xC7...0xCC).map { (UInt16($0), [UInt8](repeating: 0, count: 20)) }
        let times = (0xCE...0xD0).map { (UInt16($0), [UInt8](repeating: 0, count: 4)) }
        return texts.merging(fingerprints + times) { first, _ in first }
    }()

    /// GET DATA (section 7.2.6).
    func object(_ tag: UInt16) throws(StatusWord) -> [UInt8] {
        switch tag {
        case 0x4F: return identifier
        case 0x5E, 0x5F50: return objects[tag] ?? []
        case 0x5F52: return Self.historicalBytes
        case 0x65: return TLV(0x65, fields([0x5B, 0x5F2D, 0x5F35])).bytes
        case 0x6E: return TLV(0x6E, applicationData).bytes
        case 0x7A: return TLV(0x7A, TLV(0x93, Self.number(signatureCount, bytes: 3)).bytes).bytes
        case 0x7F21: return certificates[session.certificate]
        case 0x7F66: return Self.lengths
        case 0xC4: return passwordStatus
        case 0xDE: return keyInformation
        default: throw .referenceNotFound
        }
    }

    /// PUT DATA (section 7.2.8).
    mutating func replaceObject(_ tag: UInt16, with data: [UInt8]) throws(StatusWord) {
        try require(.administrator)
        switch tag {
        case 0xC4:
            guard data.count == 1, data[0] <= 1 else { throw .incorrectData }
            allowsSeveralSignatures = data[0] == 1
        case 0x7F21:
            guard data.count <= Self.largestCertificate else { throw .wrongLength }
            certificates[session.certificate] = data
        default:
            guard let earlier = objects[tag] else { throw .referenceNotFound }
            let isFixed = tag >= 0xC7 && tag <= 0xD0
            guard isFixed ? data.count == earlier.count : data.count <= 255 else {
                throw .wrongLength
            }
            objects[tag] = data
        }
    }

    /// SELECT DATA (section 7.2.5): selects the occurrence P1 of the certificate.
    mutating func selectCertificate(p1: UInt8, p2: UInt8, _ data: [UInt8]) throws(StatusWord) {
        guard p2 == 0x04, Int(p1) < certificates.count else { throw .incorrectParameters }
        guard data == TLV(0x60, TLV(0x5C, [0x7F, 0x21]).bytes).bytes else { throw .incorrectData }
        session.certificate = Int(p1)
    }

    // MARK: - Constructed objects

    /// The application-related data with the discretionary data (section 4.4.1, tags 6E and 73).
    private var applicationData: [UInt8] {
        let discretionary =
            [TLV(0xC0, Self.capabilities)]
            + OpenPGPKey.allCases.map { TLV($0.attributesObject, $0.attributes) } + [
                TLV(0xC4, passwordStatus), TLV(0xC5, values(0xC7...0xC9)),
                TLV(0xC6, values(0xCA...0xCC)),
                TLV(0xCD, values(0xCE...0xD0)), TLV(0xDE, keyInformation),
            ]
        return [
            TLV(0x4F, identifier), TLV(0x5F52, Self.historicalBytes), TLV(0x7F66, Self.lengths),
            TLV(0x73, discretionary.bytes),
        ].bytes
    }

    private func fields(_ tags: [UInt16]) -> [UInt8] {
        tags.map { TLV($0, objects[$0] ?? []) }.bytes
    }

    private func values(_ tags: ClosedRange<UInt16>) -> [UInt8] {
        tags.flatMap { objects[$0] ?? [] }
    }

    /// The password status bytes (section 4.4.3): whether PW1 is valid for several signatures, the
    /// maximum lengths, and the attempts left of PW1, of the resetting code and of PW3.
    private var passwordStatus: [UInt8] {
        let longest = UInt8(CountedSecret.Format.password(shortest: 6).longest)
        return [
            allowsSeveralSignatures ? 1 : 0, longest, longest, longest,
            UInt8(clamping: userPassword.attemptsLeft), 0,
            UInt8(clamping: administratorPassword.attemptsLeft),
        ]
    }

    /// The number of each key, and 1 if it was generated or 0 if it does not exist (section 4.4.3).
    private var keyInformation: [UInt8] {
        OpenPGPKey.allCases.enumerated().flatMap {
            [UInt8($0.offset + 1), keys[$0.element] == nil ? 0 : 1]
        }
    }

    private static func number(_ value: Int, bytes count: Int) -> [UInt8] {
        (0..<count).map { UInt8(truncatingIfNeeded: value >> (8 * (count - 1 - $0))) }
    }

    // MARK: - Constants

    private static let largestCertificate = 0x0480
    /// Selection by full and partial name, chaining, and extended lengths (section 6).
    private static let historicalBytes: [UInt8] = [
        0x00, 0x31, 0xC5, 0x73, 0xC0, 0x01, 0xC0, 0x05, 0x90, 0x00,
    ]
    /// The maximum lengths of commands and responses: 2048 bytes (section 4.1.3.1).
    private static let lengths: [UInt8] = [0x02, 0x02, 0x08, 0x00, 0x02, 0x02, 0x08, 0x00]
    /// The password status can be changed; the maximum lengths of certificates and other objects
    /// (section 4.4.3).
    private static let capabilities: [UInt8] = [
        0x10, 0x00, 0x00, 0x00, UInt8(largestCertificate >> 8), UInt8(largestCertificate & 0xFF),
        0x00, 0xFF, 0x00,
        0x00,
    ]
}
