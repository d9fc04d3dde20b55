/// A command to a card, in the short or the extended form (ISO/IEC 7816-4 section 5.1).
package struct CommandAPDU: Hashable, Sendable {
    /// `CLA`.
    package let commandClass: UInt8
    /// `INS`.
    package let instruction: UInt8
    /// `P1`.
    package let p1: UInt8
    /// `P2`.
    package let p2: UInt8
    /// The data field; empty if absent.
    package let data: [UInt8]
    /// The maximum length of the response in bytes, 1 to 65536; 256 if a short command has none.
    package let responseLimit: Int

    /// Parses a command.
    ///
    /// - Throws: ``StatusWord/wrongLength`` if the lengths in the command do not match its length.
    package init(_ bytes: [UInt8]) throws(StatusWord) {
        guard bytes.count >= 4 else { throw .wrongLength }
        commandClass = bytes[0]
        instruction = bytes[1]
        p1 = bytes[2]
        p2 = bytes[3]
        let body = bytes[4...]
        guard let first = body.first else {
            (data, responseLimit) = ([], 256)
            return
        }
        let isExtended = first == 0 && body.count > 1
        let rest = isExtended ? body.dropFirst() : body
        let width = isExtended ? 2 : 1
        guard let length = Self.number(rest.prefix(width), width: width) else { throw .wrongLength }
        let limit = isExtended ? 65_536 : 256
        let content = rest.dropFirst(width)
        if content.isEmpty {
            (data, responseLimit) = ([], length == 0 ? limit : length)
        } else if length > 0, content.count == length {
            (data, responseLimit) = (Array(content), limit)
        } else if length > 0, content.count == length + width,
            let expected = Self.number(content.suffix(width), width: width)
        {
            (data, responseLimit) = (
                Array(content.prefix(length)), expected == 0 ? limit : expected
            )
        } else {
            throw .wrongLength
        }
    }

    /// Whether more parts of the command follow (ISO/IEC 7816-4 section 5.1.1.1).
    var isChained: Bool { commandClass & Self.chainingBit != 0 }

    /// The class without the chaining bit.
    var baseClass: UInt8 { commandClass & ~Self.chainingBit }

    private static let chainingBit: UInt8 = 0x10

    private static func number(_ bytes: ArraySlice<UInt8>, width: Int) -> Int? {
        guard bytes.count == width else { return nil }
        return bytes.reduce(0) { $0 << 8 | Int($1) }
    }
}

/// The instructions of SP 800-73-4 Part 2 section 3, and Yubico's additions.
enum Instruction: UInt8 {
    case verify = 0x20
    case changeReferenceData = 0x24
    case resetRetryCounter = 0x2C
    case generateKeyPair = 0x47
    case generalAuthenticate = 0x87
    case select = 0xA4
    case getResponse = 0xC0
    case getData = 0xCB
    case putData = 0xDB

    // Yubico's additions. The first reads the serial number from the one-time-password application.
    case oneTimePasswordRequest = 0x01
    case moveKey = 0xF6
    case getMetadata = 0xF7
    case getSerialNumber = 0xF8
    case attest = 0xF9
    case setRetries = 0xFA
    case reset = 0xFB
    case getVersion = 0xFD
    case importKey = 0xFE
    case setManagementKey = 0xFF
}

/// The two bytes at the end of every response (ISO/IEC 7816-4 section 5.1.3, SP 800-73-4 Part 2
/// section 3).
package struct StatusWord: RawRepresentable, Hashable, Sendable, Error {
    package let rawValue: UInt16

    package init(rawValue: UInt16) {
        self.rawValue = rawValue
    }

    /// The command succeeded.
    package static let success = StatusWord(rawValue: 0x9000)
    /// A security issue (66XX). The CanoKey firmware answers this if the user does not touch the
    /// card.
    package static let securityIssue = StatusWord(rawValue: 0x6600)
    /// The data has the wrong length.
    package static let wrongLength = StatusWord(rawValue: 0x6700)
    /// The command requires the PIN, a touch or the management key.
    package static let securityStatusNotSatisfied = StatusWord(rawValue: 0x6982)
    /// The PIN or PUK has no attempts left.
    package static let authenticationBlocked = StatusWord(rawValue: 0x6983)
    /// A preceding command is missing.
    package static let conditionsNotSatisfied = StatusWord(rawValue: 0x6985)
    /// The data is invalid.
    package static let incorrectData = StatusWord(rawValue: 0x6A80)
    /// There is no such file or application.
    package static let notFound = StatusWord(rawValue: 0x6A82)
    /// The object does not fit.
    package static let noSpace = StatusWord(rawValue: 0x6A84)
    /// `P1` or `P2` is invalid.
    package static let incorrectParameters = StatusWord(rawValue: 0x6A86)
    /// The referenced key, PIN or object does not exist.
    package static let referenceNotFound = StatusWord(rawValue: 0x6A88)
    /// The instruction is not supported.
    package static let unknownInstruction = StatusWord(rawValue: 0x6D00)
    /// The class is not supported.
    package static let unknownClass = StatusWord(rawValue: 0x6E00)
    /// An internal error of the card.
    package static let internalError = StatusWord(rawValue: 0x6F00)

    /// A wrong PIN or PUK (63CX).
    ///
    /// - Parameter attempts: The attempts left; more than 15 are reported as 15.
    package static func wrongSecret(attemptsLeft attempts: Int) -> StatusWord {
        StatusWord(rawValue: 0x63C0 | UInt16(min(max(attempts, 0), 15)))
    }

    /// Whether it is a wrong PIN or PUK.
    var isWrongSecret: Bool { rawValue & 0xFFF0 == 0x63C0 }

    /// More of the response is available with GET RESPONSE (61XX).
    ///
    /// - Parameter count: The number of bytes; 256 and more are reported as 0.
    static func remaining(_ count: Int) -> StatusWord {
        StatusWord(rawValue: 0x6100 | (count < 256 ? UInt16(count) : 0))
    }

    /// Both bytes, high byte first.
    package var bytes: [UInt8] { [UInt8(rawValue >> 8), UInt8(rawValue & 0xFF)] }
}
