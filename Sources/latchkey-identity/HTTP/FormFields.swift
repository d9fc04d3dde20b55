import FoundationEssentials

/// The fields of a form or a query (`application/x-www-form-urlencoded`), read strictly.
struct FormFields: Sendable {
    private var values: [String: [String]] = [:]

    static let maximumFields = 100

    init() {}

    /// - Returns: nil when the text is not form-encoded UTF-8, has a NUL, or has too many fields.
    init?(_ encoded: some StringProtocol) {
        let pairs = encoded.split(separator: "&")
        guard pairs.count <= Self.maximumFields else { return nil }
        for pair in pairs {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = Self.decode(parts[0]), let value = Self.decode(parts.count > 1 ? parts[1] : "") else {
                return nil
            }
            values[name, default: []].append(value)
        }
    }

    /// The field's value, unless it is absent, empty (RFC 6749 section 3.1) or there twice.
    subscript(name: String) -> String? {
        guard let all = values[name], all.count == 1, let value = all.first, !value.isEmpty else { return nil }
        return value
    }

    /// A field that is there more than once, which OAuth forbids.
    var repeatedField: String? { values.filter { $0.value.count > 1 }.keys.min() }

    /// Space-separated words.
    func words(_ name: String) -> [String] {
        var seen: Set<Substring> = []
        return self[name].map { $0.split(separator: " ").filter { seen.insert($0).inserted }.map(String.init) } ?? []
    }

    /// Everything but letters, digits and `-._~` as %XX.
    static func encode(_ text: String) -> String {
        var result = ""
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
                UInt8(ascii: "~"):
                result.unicodeScalars.append(Unicode.Scalar(byte))
            default:
                let hex = String(byte, radix: 16, uppercase: true)
                result += "%" + (hex.count == 1 ? "0" : "") + hex
            }
        }
        return result
    }

    private static func decode(_ text: some StringProtocol) -> String? {
        var bytes: [UInt8] = []
        var rest = Substring(text).utf8[...]
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "+"): bytes.append(0x20)
            case UInt8(ascii: "%"):
                guard
                    let high = rest.popFirst().flatMap(hexDigit), let low = rest.popFirst().flatMap(hexDigit)
                else { return nil }
                bytes.append(high << 4 | low)
            default: bytes.append(byte)
            }
        }
        // SQLite's binding of a text ends at a NUL: what is looked up would not be what was checked.
        guard !bytes.contains(0) else { return nil }
        return String(validating: bytes, as: UTF8.self)
    }

    private static func hexDigit(_ byte: UInt8) -> UInt8? {
        Character(Unicode.Scalar(byte)).hexDigitValue.map(UInt8.init)
    }
}
