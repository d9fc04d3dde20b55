public import FoundationEssentials
public import LatchkeyJOSE
internal import LatchkeyOAuth

/// A type into which the value of a claim can be converted: text, numbers, `Bool`, `URL`, `Date`,
/// arrays and dictionaries of them, and `JSONValue`.
///
/// A type of the app with a raw value conforms without code of its own.
public protocol ClaimConvertable: Sendable {
    /// The value of a claim as this type.
    ///
    /// - Returns: nil for a value of another type.
    static func convert(from value: JSONValue) -> Self?
}

extension ClaimConvertable where Self: RawRepresentable, RawValue: ClaimConvertable {
    /// The value whose raw value the claim has.
    public static func convert(from value: JSONValue) -> Self? {
        RawValue.convert(from: value).flatMap(Self.init(rawValue:))
    }
}

extension JSONValue: ClaimConvertable {
    /// The value itself.
    public static func convert(from value: JSONValue) -> JSONValue? { value }
}

extension String: ClaimConvertable {
    /// The text of a string.
    public static func convert(from value: JSONValue) -> String? { value.string }
}

extension Bool: ClaimConvertable {
    /// A truth value, or 0 or 1, which some servers send instead.
    public static func convert(from value: JSONValue) -> Bool? {
        switch value {
        case .number(0): false
        case .number(1): true
        default: value.bool
        }
    }
}

extension Int: ClaimConvertable {
    /// A number without a fraction.
    public static func convert(from value: JSONValue) -> Int? {
        if case .integer(let integer) = value { return Int("\(integer)") }
        return value.number.flatMap(Int.init(exactly:))
    }
}

extension Double: ClaimConvertable {
    /// A number; a large integer is rounded.
    public static func convert(from value: JSONValue) -> Double? { value.number }
}

extension URL: ClaimConvertable {
    /// The text of a string as a URL. Not checked: it may have any scheme and host.
    public static func convert(from value: JSONValue) -> URL? {
        value.string.flatMap { URL(string: $0) }
    }
}

extension Date: ClaimConvertable {
    /// The last second of the year 9999, the maximum distance of a time from 1970.
    private static let lastTime: TimeInterval = 253_402_300_799

    /// Seconds since 1970 (RFC 7519 section 2), or the text of a time (ISO 8601, RFC 9110 section
    /// 5.6.7), which some servers send.
    public static func convert(from value: JSONValue) -> Date? {
        if let seconds = value.number {
            return abs(seconds) <= lastTime ? Date(timeIntervalSince1970: seconds) : nil
        }
        guard let text = value.string else { return nil }
        return (try? Date(text, strategy: .iso8601)) ?? HTTPDate.parse(text)
    }
}

extension Array: ClaimConvertable where Element: ClaimConvertable {
    /// The elements of an array, if all can be converted. As text, also the words of a string, such
    /// as the scopes in `scope` (RFC 8693 section 4.2).
    public static func convert(from value: JSONValue) -> [Element]? {
        if let text = value.string {
            return text.split(separator: " ").map(String.init) as? [Element]
        }
        guard let values = value.array else { return nil }
        let elements = values.compactMap(Element.convert)
        return elements.count == values.count ? elements : nil
    }
}

extension Dictionary: ClaimConvertable where Key == String, Value: ClaimConvertable {
    /// The members of an object, if all can be converted.
    public static func convert(from value: JSONValue) -> [String: Value]? {
        guard let members = value.object else { return nil }
        let values = members.compactMapValues(Value.convert)
        return values.count == members.count ? values : nil
    }
}
