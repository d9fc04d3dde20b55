internal import Latchkey
public import LatchkeyJOSE

/// A query for credentials. An index answers it, without the hardware.
///
/// Make queries from ``CredentialAttributes``, and combine them with `&&`, `||` and `!`.
public struct CredentialQuery: Hashable, Sendable {
    let records: RecordQuery

    /// Every credential.
    package static let all = CredentialQuery(records: .all)

    /// Matches if both queries match.
    public static func && (left: CredentialQuery, right: CredentialQuery) -> CredentialQuery {
        CredentialQuery(records: .and(left.records, right.records))
    }

    /// Matches if at least one of the queries matches.
    public static func || (left: CredentialQuery, right: CredentialQuery) -> CredentialQuery {
        CredentialQuery(records: .or(left.records, right.records))
    }

    /// Matches if the query does not match.
    public static prefix func ! (query: CredentialQuery) -> CredentialQuery {
        CredentialQuery(records: .not(query.records))
    }
}

/// The attributes in a ``CredentialQuery``. Comparing one with a value makes a query.
///
/// ```swift
/// try Credential.find { $0.tags["service"] == "purchase" && $0.subject != nil }
/// ```
public struct CredentialAttributes: Sendable {
    init() {}

    /// The token's id.
    public var id: CredentialAttribute {
        // No credential has an empty id.
        CredentialAttribute(records: { .id(CredentialRows.metadataID($0?.string ?? "")) })
    }
    /// The app's own labels.
    public var tags: Tags { Tags() }

    /// The app's own labels, by name.
    public struct Tags: Sendable {
        /// The tag of that name.
        public subscript(name: String) -> CredentialAttribute {
            .named(CredentialRows.attribute(tag: name)) { $0.string ?? CredentialRows.text(of: $0) }
        }
    }

    /// A claim of the ID token.
    public subscript(claim: String) -> CredentialAttribute {
        var attribute = CredentialAttribute.named(CredentialRows.attribute(claim: claim)) {
            CredentialRows.text(of: $0)
        }
        attribute.claim = claim
        return attribute
    }
    /// A claim of the ID token.
    public subscript(claim: ClaimName) -> CredentialAttribute { self[claim.rawValue] }

    /// The claim `sub`.
    public var subject: CredentialAttribute { self["sub"] }
    /// The claim `iss`.
    public var issuer: CredentialAttribute { self["iss"] }
    /// The claim `email`.
    public var email: CredentialAttribute { self["email"] }
}

/// The id, a tag or a claim, in a query.
public struct CredentialAttribute: Sendable {
    /// The query for a value; with nil, the query for credentials without the attribute.
    fileprivate let records: @Sendable (JSONValue?) -> RecordQuery
    /// The claim's name; nil for the id and for a tag.
    fileprivate var claim: String?

    fileprivate static func named(
        _ name: String, _ text: @escaping @Sendable (JSONValue) -> String
    ) -> CredentialAttribute {
        CredentialAttribute(records: { value in
            value.map { .attribute(name, is: text($0)) } ?? .not(.hasAttribute(name))
        })
    }

    /// The attribute has this text; with nil, the attribute does not exist.
    public static func == (left: CredentialAttribute, right: String?) -> CredentialQuery {
        CredentialQuery(records: left.records(right.map(JSONValue.string)))
    }

    /// The claim has this value, or is an array with this element. For an id or a tag, this is the
    /// same as `==`.
    public func contains(_ element: JSONValue) -> CredentialQuery {
        let isValue = records(element)
        guard let claim else { return CredentialQuery(records: isValue) }
        let isElement = RecordQuery.hasAttribute(
            CredentialRows.attribute(claim: claim, element: element))
        return CredentialQuery(records: .or(isValue, isElement))
    }

    /// The claim has this value. An array is compared whole: see ``contains(_:)``.
    public static func == (left: CredentialAttribute, right: JSONValue) -> CredentialQuery {
        CredentialQuery(records: left.records(right))
    }

    /// The attribute does not have this text; with nil, the attribute exists.
    public static func != (left: CredentialAttribute, right: String?) -> CredentialQuery {
        !(left == right)
    }
}
