/// A value of CBOR (RFC 8949), as far as an attestation object needs it.
indirect enum CBORValue: Hashable, Sendable {
    case integer(Int)
    case bytes(ArraySlice<UInt8>)
    case text(String)
    case array([CBORValue])
    /// The keys are texts and differ.
    case map([String: CBORValue])

    var bytes: ArraySlice<UInt8>? { if case .bytes(let value) = self { value } else { nil } }
    var text: String? { if case .text(let value) = self { value } else { nil } }
    var array: [CBORValue]? { if case .array(let value) = self { value } else { nil } }
    var map: [String: CBORValue]? { if case .map(let value) = self { value } else { nil } }
}

/// Reads CBOR from a client.
///
/// Accepts integers, byte strings, texts, arrays, and maps with texts as keys, with definite lengths (RFC 8949 section 4.2.1) and at
/// most 64 items. Floating-point numbers, tags and simple values are not needed and not accepted.
struct CBORReader {
    /// The reason why bytes are not an accepted value.
    struct Malformed: Error {
        let reason: String
    }

    private static let maximumItems = 64
    private static let maximumDepth = 4

    private let bytes: ArraySlice<UInt8>
    private var position: Int
    private var itemsLeft = Self.maximumItems

    /// Reads one value that fills the bytes.
    static func read(_ bytes: ArraySlice<UInt8>) throws(Malformed) -> CBORValue {
        var reader = CBORReader(bytes)
        let value = try reader.value(depth: 0)
        guard reader.position == bytes.endIndex else { throw Malformed(reason: "bytes follow the CBOR value") }
        return value
    }

    private init(_ bytes: ArraySlice<UInt8>) {
        self.bytes = bytes
        position = bytes.startIndex
    }

    private mutating func value(depth: Int) throws(Malformed) -> CBORValue {
        guard itemsLeft > 0, depth < Self.maximumDepth else { throw Malformed(reason: "the CBOR value is too complex") }
        itemsLeft -= 1
        let (major, argument) = try head()
        switch major {
        case 0: return .integer(argument)
        case 1: return .integer(-1 - argument)
        case 2: return .bytes(try take(argument))
        case 3:
            guard let text = String(validating: try take(argument), as: UTF8.self) else {
                throw Malformed(reason: "a CBOR text is not UTF-8")
            }
            return .text(text)
        case 4:
            guard argument <= itemsLeft else { throw Malformed(reason: "a CBOR array is too long") }
            var values: [CBORValue] = []
            for _ in 0..<argument { values.append(try value(depth: depth + 1)) }
            return .array(values)
        case 5:
            guard argument <= itemsLeft else { throw Malformed(reason: "a CBOR map is too long") }
            var members: [String: CBORValue] = [:]
            for _ in 0..<argument {
                guard let key = try value(depth: depth + 1).text else {
                    throw Malformed(reason: "a CBOR key is not a text")
                }
                guard members.updateValue(try value(depth: depth + 1), forKey: key) == nil else {
                    throw Malformed(reason: "a CBOR key occurs twice")
                }
            }
            return .map(members)
        default: throw Malformed(reason: "CBOR of major type \(major) is not accepted")
        }
    }

    /// The major type and the argument, at most 32 bits in the shortest form (RFC 8949 section 4.2.1).
    private mutating func head() throws(Malformed) -> (major: UInt8, argument: Int) {
        let first = try take(1).reduce(0) { $0 | $1 }
        let (major, short) = (first >> 5, Int(first & 0x1F))
        let count: Int
        switch short {
        case 0...23: return (major, short)
        case 24: count = 1
        case 25: count = 2
        case 26: count = 4
        default: throw Malformed(reason: "a CBOR length is indefinite or too long")
        }
        let argument = try take(count).reduce(0) { $0 << 8 | Int($1) }
        guard argument > [1: 23, 2: 0xFF, 4: 0xFFFF][count, default: 0] else {
            throw Malformed(reason: "a CBOR length is not in its shortest form")
        }
        return (major, argument)
    }

    private mutating func take(_ count: Int) throws(Malformed) -> ArraySlice<UInt8> {
        guard count <= bytes.endIndex - position else { throw Malformed(reason: "the CBOR value ends too early") }
        defer { position += count }
        return bytes[position..<(position + count)]
    }
}
