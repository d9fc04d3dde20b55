/// One command to a card, in the short or the extended form (ISO/IEC 7816-4 section 5.1).
public struct CommandAPDU: Hashable, Sendable {
    /// `CLA`.
    public let commandClass: UInt8
    /// `INS`.
    public let instruction: UInt8
    /// `P1`.
    public let p1: UInt8
    /// `P2`.
    public let p2: UInt8
    /// The data field; empty where there is none.
    public let data: [UInt8]
    /// How many bytes of response fit the reader, 1 to 65536. 256 in a short command that does not say.
    public let responseLimit: Int

    /// Takes a command apart.
    ///
    /// - Throws: ``StatusWord/wrongLength`` when the lengths within it don't add up to its own.
    public init(_ bytes: [UInt8]) throws(StatusWord) {
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
            (data, responseLimit) = (Array(content.prefix(length)), expected == 0 ? limit : expected)
        } else {
            throw .wrongLength
        }
    }

    /// Whether more pieces of the command follow (ISO/IEC 7816-4 section 5.1.1.1).
    var isChained: Bool { commandClass & Self.chainingBit != 0 }

    /// The class without the bit for chaining.
    var baseClass: UInt8 { commandClass & ~Self.chainingBit }

    private static let chainingBit: UInt8 = 0x10

    private static func number(_ bytes: ArraySlice<UInt8>, width: Int) -> Int? {
        guard bytes.count == width else { return nil }
        return bytes.reduce(0) { $0 << 8 | Int($1) }
    }
}
