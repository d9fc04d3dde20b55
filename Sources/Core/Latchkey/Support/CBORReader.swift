/// Reads CBOR from an untrusted sender.
///
/// Accepts integers of at most 32 bits, byte strings, texts, arrays, and maps with texts as keys,
/// with CTAP also booleans and integers as keys, with shortest and definite lengths (RFC 8949
/// section 4.2.1). The keys of a map can have any order. Floating-point numbers, tags and other
/// simple values are not needed and not accepted.
package struct CBORReader {
    /// The reason why bytes are not an accepted value.
    package struct Malformed: Error {
        package let reason: String
    }

    /// The permitted values.
    package struct Limits: Sendable {
        /// The maximum number of items, those of maps and arrays included.
        let items: Int
        /// The maximum number of maps and arrays around a value, itself included.
        let depth: Int
        /// Whether booleans and integers as keys are accepted, and texts that are not UTF-8 are
        /// repaired.
        let isCTAP: Bool

        /// An attestation object.
        package static let attestation = Limits(items: 64, depth: 3, isCTAP: false)
        /// A CTAP 2 request: at most four levels. Old clients cut a text within a character, so
        /// texts are repaired with U+FFFD.
        package static let ctap = Limits(items: 1024, depth: 4, isCTAP: true)
    }

    private let bytes: ArraySlice<UInt8>
    private let limits: Limits
    private var position: Int
    private var itemsLeft: Int

    /// Reads one value that fills the bytes.
    package static func read(
        _ bytes: ArraySlice<UInt8>, limits: Limits = .attestation
    ) throws(Malformed) -> CBORValue {
        var reader = CBORReader(bytes, limits)
        let value = try reader.value(depth: 0)
        guard reader.position == bytes.endIndex else {
            throw Malformed(reason: "bytes follow the CBOR value")
        }
        return value
    }

    private init(_ bytes: ArraySlice<UInt8>, _ limits: Limits) {
        self.bytes = bytes
        self.limits = limits
        position = bytes.startIndex
        itemsLeft = limits.items
    }

    private mutating func value(depth: Int) throws(Malformed) -> CBORValue {
        let (major, argument) = try head()
        guard itemsLeft > 0, major != 4 && major != 5 || depth < limits.depth else {
            throw Malformed(reason: "the CBOR value is too complex")
        }
        itemsLeft -= 1
        switch major {
        case 0: return .integer(argument)
        case 1: return .integer(-1 - argument)
        case 2: return .bytes(Array(try take(argument)))
        case 3: return .text(try text(argument))
        case 4:
            guard argument <= itemsLeft else { throw Malformed(reason: "a CBOR array is too long") }
            var values: [CBORValue] = []
            for _ in 0..<argument { values.append(try value(depth: depth + 1)) }
            return .array(values)
        case 5:
            guard argument <= itemsLeft / 2 else {
                throw Malformed(reason: "a CBOR map is too long")
            }
            var members: [CBORKey: CBORValue] = [:]
            for _ in 0..<argument {
                let key = try key()
                guard members.updateValue(try value(depth: depth + 1), forKey: key) == nil else {
                    throw Malformed(reason: "a CBOR key occurs twice")
                }
            }
            return .map(members)
        case 7 where limits.isCTAP && (argument == 20 || argument == 21):
            return .boolean(argument == 21)
        default: throw Malformed(reason: "CBOR of major type \(major) is not accepted")
        }
    }

    private mutating func key() throws(Malformed) -> CBORKey {
        guard itemsLeft > 0 else { throw Malformed(reason: "the CBOR value is too complex") }
        itemsLeft -= 1
        let (major, argument) = try head()
        switch major {
        case 0 where limits.isCTAP: return .integer(argument)
        case 1 where limits.isCTAP: return .integer(-1 - argument)
        case 3: return .text(try text(argument))
        default: throw Malformed(reason: "a CBOR key has a type that is not accepted")
        }
    }

    private mutating func text(_ count: Int) throws(Malformed) -> String {
        let bytes = try take(count)
        if let text = String(validating: bytes, as: UTF8.self) { return text }
        guard limits.isCTAP else { throw Malformed(reason: "a CBOR text is not UTF-8") }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// The major type and the argument, at most 32 bits in the shortest form (RFC 8949 section
    /// 4.2.1).
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
        guard count <= bytes.endIndex - position else {
            throw Malformed(reason: "the CBOR value ends too early")
        }
        defer { position += count }
        return bytes[position..<(position + count)]
    }
}
