internal import SwiftASN1
internal import X509

/// An attribute of a name: what it is called in text, and how its value is encoded.
struct NameAttribute {
    /// The ASN.1 type of a value.
    enum Syntax {
        case utf8
        case printable
        case ia5
    }

    let type: ASN1ObjectIdentifier
    let syntax: Syntax
    /// The most characters that a value has (X.520 (10/2019) annex C, RFC 5280 appendix A.1).
    let limit: Int

    /// - Parameter name: A short name in either case, or an object identifier in digits and dots.
    /// - Returns: nil for what is neither.
    init?(named name: String) {
        if let known = Self.known[name.uppercased()] {
            self = known
            return
        }
        guard let type = Self.identifier(name) else { return nil }
        self.init(type, .utf8, limit: 32_768)
    }

    /// An object identifier from digits and dots; the first two numbers have the bounds of X.660 section 7.6.
    private static func identifier(_ text: String) -> ASN1ObjectIdentifier? {
        let numbers = text.split(separator: ".", omittingEmptySubsequences: false).map { UInt32($0).map(UInt.init) }
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

    /// - Throws: What the encoder throws for characters that the attribute can't hold.
    func value(_ text: String) throws -> RelativeDistinguishedName.Attribute {
        let value =
            switch syntax {
            case .utf8: RelativeDistinguishedName.Attribute.Value(utf8String: text)
            case .printable: try RelativeDistinguishedName.Attribute.Value(printableString: text)
            case .ia5: try RelativeDistinguishedName.Attribute.Value(ia5String: text)
            }
        return RelativeDistinguishedName.Attribute(type: type, value: value)
    }

    /// RFC 4514 section 3, and the names that OpenSSL has beyond it.
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
