public import FoundationEssentials

/// A JSON value of any shape (RFC 8259).
public enum JSONValue: Hashable, Sendable {
    /// `null`.
    case null
    /// `true` or `false`.
    case bool(Bool)
    /// A number, as a 64-bit IEEE 754 value.
    case number(Double)
    /// An integer beyond ±2⁵³, of at most 38 digits, that ``number(_:)`` cannot represent exactly.
    case integer(Decimal)
    /// Text.
    case string(String)
    /// An array.
    case array([JSONValue])
    /// An object; its members have no order.
    case object([String: JSONValue])

    /// The member of an object; nil if this is not an object or lacks the member.
    public subscript(name: String) -> JSONValue? { object?[name] }

    /// The text, if this is a string.
    public var string: String? { if case .string(let text) = self { text } else { nil } }

    /// The truth value, if this is one.
    public var bool: Bool? { if case .bool(let bool) = self { bool } else { nil } }

    /// The number, if this is one; a large integer rounded.
    public var number: Double? {
        switch self {
        case .number(let number): number
        case .integer(let integer): Double("\(integer)")
        default: nil
        }
    }

    /// The elements, if this is an array.
    public var array: [JSONValue]? { if case .array(let elements) = self { elements } else { nil } }

    /// The members, if this is an object.
    public var object: [String: JSONValue]? {
        if case .object(let members) = self { members } else { nil }
    }
}

extension JSONValue: Codable {
    /// The integer, if `number` is a rounded form of it.
    private static func largeInteger(_ number: Double, _ integer: Decimal?) -> JSONValue? {
        // Every integer up to 2⁵³ is exact as a 64-bit IEEE 754 value.
        guard number.magnitude >= 9_007_199_254_740_992, number == number.rounded(), let integer,
            Int(exactly: number).map({ Decimal($0) != integer }) ?? true
        else { return nil }
        return .integer(integer)
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let bool = try? container.decode(Bool.self) {
            self = .bool(bool)
        } else if let number = try? container.decode(Double.self) {
            self = Self.largeInteger(number, try? container.decode(Decimal.self)) ?? .number(number)
        } else if let string = try? container.decode(String.self) {
            self = .string(string)
        } else if let array = try? container.decode([JSONValue].self) {
            self = .array(array)
        } else {
            self = .object(try container.decode([String: JSONValue].self))
        }
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .null: try container.encodeNil()
        case .bool(let bool): try container.encode(bool)
        case .number(let number):
            if let integer = Int(exactly: number) {
                try container.encode(integer)
            } else {
                try container.encode(number)
            }
        case .integer(let integer): try container.encode(integer)
        case .string(let string): try container.encode(string)
        case .array(let array): try container.encode(array)
        case .object(let members): try container.encode(members)
        }
    }
}

extension JSONValue: ExpressibleByStringLiteral, ExpressibleByBooleanLiteral,
    ExpressibleByIntegerLiteral,
    ExpressibleByFloatLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    public init(stringLiteral value: String) { self = .string(value) }
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    public init(integerLiteral value: Int) {
        self =
            Int(exactly: Double(value)) == value ? .number(Double(value)) : .integer(Decimal(value))
    }
    public init(floatLiteral value: Double) { self = .number(value) }
    public init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
    public init(dictionaryLiteral elements: (String, JSONValue)...) {
        self = .object(Dictionary(elements) { _, last in last })
    }
}
