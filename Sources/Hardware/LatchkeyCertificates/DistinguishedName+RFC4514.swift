public import Latchkey
internal import SwiftASN1
public import X509

extension DistinguishedName {
    /// Parses a name in text form (RFC 4514): `CN=Ann Onymous,O=Example,C=SE`, the most specific
    /// part first.
    ///
    /// - The attributes are `CN`, `SN`, `GN`, `SERIALNUMBER`, `C`, `L`, `ST`, `STREET`, `O`, `OU`,
    ///   `T`, `DC`, `UID`, `E` or `emailAddress`, in upper or lower case, or an object identifier
    ///   in digits and dots.
    /// - `+` joins attributes to one part. Blanks around parts are ignored.
    /// - In a value `\` escapes `,` `+` `"` `\` `<` `>` `;` `=` `#` or a blank, or precedes two
    ///   hexadecimal digits of a byte of UTF-8.
    ///
    /// Encoded values (`#04…`) and quoted values (RFC 1779) are not supported.
    ///
    /// - Throws: `KeystoreError` with code `invalidInput`, which names the wrong part.
    public init(rfc4514 text: String) throws(KeystoreError) {
        var parser = NameParser(text)
        let parts = try parser.relativeNames()
        self.init(parts.reversed())
    }
}

/// Parses the text of a distinguished name (RFC 4514 section 3).
struct NameParser {
    private let text: String
    private var rest: ArraySlice<UInt8>

    /// The characters that `\` escapes (RFC 4514 section 3: `special`, the blank and `#`, and `=`).
    private static let escapable = Set(#",+"\<>;=# "#.utf8)
    private static let blank = UInt8(ascii: " ")

    init(_ text: String) {
        self.text = text
        rest = Array(text.utf8)[...]
    }

    /// The parts in the order of the text.
    mutating func relativeNames() throws(KeystoreError) -> [RelativeDistinguishedName] {
        var parts: [RelativeDistinguishedName] = []
        repeat {
            var attributes = [try attribute()]
            while skip("+") { attributes.append(try attribute()) }
            parts.append(RelativeDistinguishedName(attributes))
        } while skip(",")
        guard rest.isEmpty else { throw refusal("‘\(remainder)’ is not expected") }
        return parts
    }

    private mutating func attribute() throws(KeystoreError) -> RelativeDistinguishedName.Attribute {
        guard let equals = rest.firstIndex(of: UInt8(ascii: "=")) else {
            throw refusal("‘\(remainder)’ is not of the form NAME=VALUE")
        }
        let name = String(decoding: rest[..<equals].trimmed(of: Self.blank), as: UTF8.self)
        guard let kind = NameAttribute(named: name) else {
            throw refusal("‘\(name)’ is not an attribute of a name")
        }
        rest = rest[(equals + 1)...]
        let value = try value(of: name)
        guard (1...kind.limit).contains(value.count) else {
            throw refusal("\(name) has \(value.count) characters and must have 1 to \(kind.limit)")
        }
        guard kind.type != .RDNAttributeType.countryName || value.count == 2 else {
            throw refusal("C must be a country code of two letters")
        }
        do {
            return try kind.value(value)
        } catch {
            throw refusal("\(name) can't contain ‘\(value)’")
        }
    }

    private mutating func value(of name: String) throws(KeystoreError) -> String {
        rest = rest.drop { $0 == Self.blank }
        guard rest.first != UInt8(ascii: "#") else {
            throw refusal("\(name) is encoded, which is not supported")
        }
        var bytes: [UInt8] = []
        // The number of bytes up to the last escaped one: blanks after them are removed.
        var kept = 0
        while let byte = rest.first, byte != UInt8(ascii: ","), byte != UInt8(ascii: "+") {
            rest = rest.dropFirst()
            switch byte {
            case UInt8(ascii: "\\"):
                bytes.append(try escaped())
                kept = bytes.count
            case UInt8(ascii: "\""), UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: ";"), 0:
                throw refusal(
                    "‘\(String(decoding: [byte], as: UTF8.self))’ in \(name) must be escaped with \\"
                )
            default: bytes.append(byte)
            }
        }
        while bytes.count > kept, bytes.last == Self.blank { bytes.removeLast() }
        guard let value = String(validating: bytes, as: UTF8.self) else {
            throw refusal("\(name) is not UTF-8")
        }
        return value
    }

    private mutating func escaped() throws(KeystoreError) -> UInt8 {
        if let byte = rest.first, Self.escapable.contains(byte) {
            rest = rest.dropFirst()
            return byte
        }
        let digits = String(decoding: rest.prefix(2), as: UTF8.self)
        guard digits.utf8.count == 2, digits.allSatisfy(\.isHexDigit),
            let byte = UInt8(digits, radix: 16)
        else {
            throw refusal("\\ can't precede ‘\(remainder)’")
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
            operation: "read the subject ‘\(text)’", code: .invalidInput, reason: reason,
            recovery: "Write it like ‘CN=Ann Onymous,O=Example,C=SE’, the most specific part first."
        )
    }
}

extension ArraySlice<UInt8> {
    fileprivate func trimmed(of byte: UInt8) -> ArraySlice<UInt8> {
        var slice = drop { $0 == byte }
        while slice.last == byte { slice.removeLast() }
        return slice
    }
}

/// An attribute type of a name and the encoding of its value.
struct NameAttribute {
    /// The ASN.1 type of a value.
    enum Syntax {
        case utf8
        case printable
        case ia5
    }

    let type: ASN1ObjectIdentifier
    let syntax: Syntax
    /// The maximum length of a value in characters (X.520 (10/2019) annex C, RFC 5280 appendix
    /// A.1).
    let limit: Int

    /// - Parameter name: A short name in either case, or an object identifier in digits and dots.
    /// - Returns: nil for another name.
    init?(named name: String) {
        if let known = Self.known[name.uppercased()] {
            self = known
            return
        }
        guard let type = Self.identifier(name) else { return nil }
        self.init(type, .utf8, limit: 32_768)
    }

    /// Parses an object identifier; the first two numbers have the bounds of X.660 section 7.6.
    private static func identifier(_ text: String) -> ASN1ObjectIdentifier? {
        let numbers = text.split(separator: ".", omittingEmptySubsequences: false).map {
            UInt32($0).map(UInt.init)
        }
        let elements = numbers.compactMap(\.self)
        guard elements.count == numbers.count, elements.count >= 2 else { return nil }
        guard elements[0] < 2 ? elements[1] < 40 : elements[0] == 2 else { return nil }
        return try? ASN1ObjectIdentifier(elements: elements)
    }

    private init(_ type: ASN1ObjectIdentifier, _ syntax: Syntax, limit: Int) {
        self.type = type
        self.syntax = syntax
        self.limit = limit
    }

    /// - Throws: The encoder's error for characters that the attribute can't contain.
    func value(_ text: String) throws -> RelativeDistinguishedName.Attribute {
        let value =
            switch syntax {
            case .utf8: RelativeDistinguishedName.Attribute.Value(utf8String: text)
            case .printable: try RelativeDistinguishedName.Attribute.Value(printableString: text)
            case .ia5: try RelativeDistinguishedName.Attribute.Value(ia5String: text)
            }
        return RelativeDistinguishedName.Attribute(type: type, value: value)
    }

    /// The names of RFC 4514 section 3, and additional names of OpenSSL.
    private static let known: [String: NameAttribute] = {
        let email = NameAttribute(.RDNAttributeType.emailAddress, .ia5, limit: 255)
        return [
            "CN": NameAttribute(.RDNAttributeType.commonName, .utf8, limit: 64),
            "SN": NameAttribute([2, 5, 4, 4], .utf8, limit: 64),
            "SERIALNUMBER": NameAttribute([2, 5, 4, 5], .printable, limit: 64),
            "C": NameAttribute(.RDNAttributeType.countryName, .printable, limit: 2),
            "L": NameAttribute(.RDNAttributeType.localityName, .utf8, limit: 128),
            "ST": NameAttribute(.RDNAttributeType.stateOrProvinceName, .utf8, limit: 128),
            "STREET": NameAttribute(.RDNAttributeType.streetAddress, .utf8, limit: 128),
            "O": NameAttribute(.RDNAttributeType.organizationName, .utf8, limit: 64),
            "OU": NameAttribute(.RDNAttributeType.organizationalUnitName, .utf8, limit: 64),
            "T": NameAttribute([2, 5, 4, 12], .utf8, limit: 64),
            "GN": NameAttribute([2, 5, 4, 42], .utf8, limit: 64),
            "DC": NameAttribute(.RDNAttributeType.domainComponent, .ia5, limit: 63),
            "UID": NameAttribute([0, 9, 2342, 19_200_300, 100, 1, 1], .utf8, limit: 256),
            "E": email, "EMAILADDRESS": email,
        ]
    }()
}
