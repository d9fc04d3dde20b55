internal import Latchkey
internal import X509

/// Reads the text of a distinguished name (RFC 4514 section 3).
struct NameParser {
    private let text: String
    private var rest: ArraySlice<UInt8>

    private static let operation = "read the subject"
    /// What `\` makes ordinary (RFC 4514 section 3: `special`, the blank and `#`, and `=`).
    private static let escapable = Set(#",+"\<>;=# "#.utf8)
    private static let blank = UInt8(ascii: " ")

    init(_ text: String) {
        self.text = text
        rest = Array(text.utf8)[...]
    }

    /// The parts in the order in which they are written.
    mutating func relativeNames() throws(KeystoreError) -> [RelativeDistinguishedName] {
        var parts: [RelativeDistinguishedName] = []
        repeat {
            var attributes = [try attribute()]
            while skip("+") { attributes.append(try attribute()) }
            parts.append(RelativeDistinguishedName(attributes))
        } while skip(",")
        guard rest.isEmpty else { throw refusal("‘\(remainder)’ is in the way") }
        return parts
    }

    private mutating func attribute() throws(KeystoreError) -> RelativeDistinguishedName.Attribute {
        guard let equals = rest.firstIndex(of: UInt8(ascii: "=")) else {
            throw refusal("‘\(remainder)’ is not of the form NAME=VALUE")
        }
        let name = String(decoding: rest[..<equals].trimmed(of: Self.blank), as: UTF8.self)
        guard let kind = NameAttribute(named: name) else { throw refusal("‘\(name)’ is no attribute of a name") }
        rest = rest[(equals + 1)...]
        let value = try value(of: name)
        guard (1...kind.limit).contains(value.count) else {
            throw refusal("\(name) has \(value.count) characters, and may have 1 to \(kind.limit)")
        }
        guard kind.type != .RDNAttributeType.countryName || value.count == 2 else {
            throw refusal("C is a country of two letters")
        }
        do {
            return try kind.value(value)
        } catch {
            throw refusal("\(name) can't hold ‘\(value)’")
        }
    }

    private mutating func value(of name: String) throws(KeystoreError) -> String {
        rest = rest.drop { $0 == Self.blank }
        guard rest.first != UInt8(ascii: "#") else { throw refusal("\(name) is encoded, which is not read here") }
        var bytes: [UInt8] = []
        // How many bytes stay whatever they are: a blank behind them counts only if it was escaped.
        var kept = 0
        while let byte = rest.first, byte != UInt8(ascii: ","), byte != UInt8(ascii: "+") {
            rest = rest.dropFirst()
            switch byte {
            case UInt8(ascii: "\\"):
                bytes.append(try escaped())
                kept = bytes.count
            case UInt8(ascii: "\""), UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: ";"), 0:
                throw refusal("‘\(String(decoding: [byte], as: UTF8.self))’ in \(name) needs a \\ before it")
            default: bytes.append(byte)
            }
        }
        while bytes.count > kept, bytes.last == Self.blank { bytes.removeLast() }
        guard let value = String(validating: bytes, as: UTF8.self) else { throw refusal("\(name) is not UTF-8") }
        return value
    }

    private mutating func escaped() throws(KeystoreError) -> UInt8 {
        if let byte = rest.first, Self.escapable.contains(byte) {
            rest = rest.dropFirst()
            return byte
        }
        let digits = String(decoding: rest.prefix(2), as: UTF8.self)
        guard digits.utf8.count == 2, digits.allSatisfy(\.isHexDigit), let byte = UInt8(digits, radix: 16) else {
            throw refusal("a \\ stands before ‘\(remainder)’")
        }
        rest = rest.dropFirst(2)
        return byte
    }

    private mutating func skip(_ separator: Unicode.Scalar) -> Bool {
        guard rest.first == UInt8(ascii: separator) else { return false }
        rest = rest.dropFirst()
        return true
    }

    private var remainder: String { String(decoding: rest, as: UTF8.self) }

    private func refusal(_ reason: String) -> KeystoreError {
        KeystoreError(
            operation: "\(Self.operation) ‘\(text)’", code: .invalidInput, reason: reason,
            recovery: "Write it like ‘CN=Ann Onymous,O=Example,C=SE’, the most specific part first.")
    }
}

extension ArraySlice<UInt8> {
    fileprivate func trimmed(of byte: UInt8) -> ArraySlice<UInt8> {
        var slice = drop { $0 == byte }
        while slice.last == byte { slice.removeLast() }
        return slice
    }
}
