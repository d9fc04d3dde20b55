internal import FoundationEssentials

/// The name of one key: 8 to 64 characters of `A–Z a–z 0–9 _ -`.
///
/// A key made by Latchkey gets a random UUID in upper case. The alphabet is the one that an Authgear server accepts
/// as a JOSE `kid`, so that one name serves the store, the token and the wire.
public struct KeyID: RawRepresentable, Hashable, Sendable, Codable, CustomStringConvertible {
    public let rawValue: String

    /// - Returns: nil when `rawValue` is shorter than 8 or longer than 64 characters, or has a character outside of
    ///   the alphabet.
    public init?(rawValue: String) {
        guard (8...64).contains(rawValue.utf8.count), rawValue.utf8.allSatisfy(Self.isAllowed) else { return nil }
        self.rawValue = rawValue
    }

    /// A new name that no other key has.
    public static func random() -> KeyID {
        KeyID(unchecked: UUID().uuidString)
    }

    public var description: String { rawValue }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let text = try container.decode(String.self)
        guard let id = KeyID(rawValue: text) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "not a key id")
        }
        self = id
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(rawValue)
    }

    private init(unchecked rawValue: String) {
        self.rawValue = rawValue
    }

    private static func isAllowed(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"):
            true
        default: false
        }
    }
}
