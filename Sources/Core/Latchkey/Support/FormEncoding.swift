internal import FoundationEssentials

/// Encodes names and values as `application/x-www-form-urlencoded`, for a body or a URL's query.
package enum FormEncoding {
    /// Percent-encodes everything except RFC 3986's unreserved characters, spaces too, so that
    /// every decoder reads the same values.
    package static func encode(_ fields: [(name: String, value: String)]) -> String {
        fields.map { "\(escape($0.name))=\(escape($0.value))" }.joined(separator: "&")
    }

    /// - Returns: nil if an escape is invalid, the text is not UTF-8, or a name is repeated
    ///   (forbidden by RFC 6749 section 3.1).
    package static func decode(_ text: some StringProtocol) -> [String: String]? {
        var fields: [String: String] = [:]
        for pair in text.split(separator: "&") {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard
                let name = unescape(parts[0]),
                let value = unescape(parts.count == 2 ? parts[1] : ""),
                fields.updateValue(value, forKey: name) == nil
            else { return nil }
        }
        return fields
    }

    private static func escape(_ text: String) -> String {
        text.utf8.map { byte in
            isUnreserved(byte)
                ? String(UnicodeScalar(byte))
                : (byte < 16 ? "%0" : "%") + String(byte, radix: 16, uppercase: true)
        }.joined()
    }

    private static func isUnreserved(_ byte: UInt8) -> Bool {
        byte.isASCIILetterOrDigit || "-._~".utf8.contains(byte)
    }

    private static func unescape(_ text: some StringProtocol) -> String? {
        var decoded: [UInt8] = []
        var bytes = text.utf8.makeIterator()
        while let byte = bytes.next() {
            switch byte {
            case UInt8(ascii: "+"): decoded.append(UInt8(ascii: " "))
            case UInt8(ascii: "%"):
                guard
                    let high = bytes.next().flatMap(Self.hexValue),
                    let low = bytes.next().flatMap(Self.hexValue)
                else { return nil }
                decoded.append(high << 4 | low)
            default: decoded.append(byte)
            }
        }
        return String(validating: decoded, as: UTF8.self)
    }

    private static func hexValue(_ byte: UInt8) -> UInt8? {
        Character(UnicodeScalar(byte)).hexDigitValue.map(UInt8.init)
    }
}

extension UInt8 {
    package var isASCIILetterOrDigit: Bool {
        switch self {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: false
        }
    }
}
