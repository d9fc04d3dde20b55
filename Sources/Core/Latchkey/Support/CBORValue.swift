/// A value of CBOR (RFC 8949), as far as WebAuthn and CTAP need it.
package indirect enum CBORValue: Hashable, Sendable {
    case integer(Int)
    case bytes([UInt8])
    case text(String)
    case array([CBORValue])
    /// The keys differ.
    case map([CBORKey: CBORValue])
    case boolean(Bool)

    package var integer: Int? { if case .integer(let value) = self { value } else { nil } }
    package var bytes: [UInt8]? { if case .bytes(let value) = self { value } else { nil } }
    package var text: String? { if case .text(let value) = self { value } else { nil } }
    package var array: [CBORValue]? { if case .array(let value) = self { value } else { nil } }
    package var map: [CBORKey: CBORValue]? { if case .map(let value) = self { value } else { nil } }
    package var boolean: Bool? { if case .boolean(let value) = self { value } else { nil } }
}

/// A key of a CBOR map.
package enum CBORKey: Hashable, Sendable, ExpressibleByIntegerLiteral, ExpressibleByStringLiteral {
    case integer(Int)
    case text(String)

    package init(integerLiteral value: Int) { self = .integer(value) }
    package init(stringLiteral value: String) { self = .text(value) }
}

extension CBORValue {
    /// The canonical encoding of CTAP 2 (section "Message Encoding"): shortest integers and
    /// lengths, definite lengths, and the keys of a map sorted by type, then by length, then by
    /// bytes.
    package var encoded: [UInt8] {
        var bytes: [UInt8] = []
        write(to: &bytes)
        return bytes
    }

    private func write(to bytes: inout [UInt8]) {
        switch self {
        case .integer(let value): Self.write(value, to: &bytes)
        case .bytes(let value):
            Self.writeHead(2, UInt64(value.count), to: &bytes)
            bytes += value
        case .text(let value): Self.write(value, to: &bytes)
        case .array(let values):
            Self.writeHead(4, UInt64(values.count), to: &bytes)
            for value in values { value.write(to: &bytes) }
        case .map(let members):
            Self.writeHead(5, UInt64(members.count), to: &bytes)
            let sorted = members.map { (key: Self.encoded($0.key), value: $0.value) }
                .sorted { Self.precedes($0.key, $1.key) }
            for (key, value) in sorted {
                bytes += key
                value.write(to: &bytes)
            }
        case .boolean(let value): bytes.append(value ? 0xF5 : 0xF4)
        }
    }

    private static func encoded(_ key: CBORKey) -> [UInt8] {
        var bytes: [UInt8] = []
        switch key {
        case .integer(let value): write(value, to: &bytes)
        case .text(let value): write(value, to: &bytes)
        }
        return bytes
    }

    /// The order of encoded keys. Two keys never have the same encoding.
    private static func precedes(_ left: [UInt8], _ right: [UInt8]) -> Bool {
        let (leftType, rightType) = ((left.first ?? 0) >> 5, (right.first ?? 0) >> 5)
        guard leftType == rightType else { return leftType < rightType }
        guard left.count == right.count else { return left.count < right.count }
        return left.lexicographicallyPrecedes(right)
    }

    private static func write(_ value: Int, to bytes: inout [UInt8]) {
        if value >= 0 {
            writeHead(0, UInt64(value), to: &bytes)
        } else {
            writeHead(1, UInt64(-1 - value), to: &bytes)
        }
    }

    private static func write(_ text: String, to bytes: inout [UInt8]) {
        writeHead(3, UInt64(text.utf8.count), to: &bytes)
        bytes += text.utf8
    }

    private static func writeHead(_ major: UInt8, _ argument: UInt64, to bytes: inout [UInt8]) {
        let count: Int
        switch argument {
        case 0...23:
            bytes.append(major << 5 | UInt8(argument))
            return
        case ...0xFF: count = 1
        case ...0xFFFF: count = 2
        case ...0xFFFF_FFFF: count = 4
        default: count = 8
        }
        bytes.append(major << 5 | [1: 24, 2: 25, 4: 26, 8: 27][count, default: 27])
        for index in (0..<count).reversed() {
            bytes.append(UInt8(truncatingIfNeeded: argument >> (8 * index)))
        }
    }
}
