internal import Latchkey
public import LatchkeyJOSE

/// A query for credentials. An index answers it, without the hardware.
///
/// Make queries from ``CredentialAttributes``, and combine them with `&&`, `||` and `!`.
public struct CredentialQuery: Hashable, Sendable {
    let records: RecordQuery

    /// Every credential.
    public static let all = CredentialQuery(records: .all)

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
/// try store.find { $0.tags["service"] == "purchase" && $0.subject != nil }
/// ```
public struct CredentialAttributes: Sendable {
    init() {}

    /// The token's id.
    public var id: IDAttribute { IDAttribute() }
    /// The app's own labels.
    public var tags: Tags { Tags() }

    /// The app's own labels, by name.
    public struct Tags: Sendable {
        /// The tag of that name.
        public subscript(name: String) -> TagAttribute { TagAttribute(name: name) }
    }

    /// A claim of the ID token.
    public subscript(claim: Claim) -> ClaimAttribute { ClaimAttribute(claim: claim) }

    /// The claim `sub`.
    public var subject: ClaimAttribute { self[.subject] }
    /// The claim `iss`.
    public var issuer: ClaimAttribute { self[.issuer] }
    /// The claim `name`.
    public var name: ClaimAttribute { self[.name] }
    /// The claim `preferred_username`.
    public var preferredUsername: ClaimAttribute { self[.preferredUsername] }
    /// The claim `email`.
    public var email: ClaimAttribute { self[.email] }
}

/// The id of a token, in a query.
public struct IDAttribute: Sendable {
    /// The credential with this id.
    public static func == (left: IDAttribute, right: String) -> CredentialQuery {
        CredentialQuery(records: .id(CredentialRows.metadataID(right)))
    }

    /// Every credential but the one with this id.
    public static func != (left: IDAttribute, right: String) -> CredentialQuery { !(left == right) }
}

/// A tag, in a query.
public struct TagAttribute: Sendable {
    let name: String

    /// The tag has this value; with nil, there is no such tag.
    public static func == (left: TagAttribute, right: String?) -> CredentialQuery {
        let attribute = CredentialRows.attribute(tag: left.name)
        guard let right else { return CredentialQuery(records: .not(.hasAttribute(attribute))) }
        return CredentialQuery(records: .attribute(attribute, is: right))
    }

    /// The tag is not this text; nil: there is such a tag.
    public static func != (left: TagAttribute, right: String?) -> CredentialQuery { !(left == right) }
}

/// A claim of the ID token, in a query.
public struct ClaimAttribute: Sendable {
    let claim: Claim

    /// The claim has this value; with nil, there is no such claim. An array is compared whole.
    public func equals(_ value: JSONValue?) -> CredentialQuery {
        let attribute = CredentialRows.attribute(claim: claim.rawValue)
        guard let value else { return CredentialQuery(records: .not(.hasAttribute(attribute))) }
        return CredentialQuery(records: .attribute(attribute, is: CredentialRows.text(of: value)))
    }

    /// The claim is this text; nil: there is no such claim.
    public static func == (left: ClaimAttribute, right: String?) -> CredentialQuery {
        left.equals(right.map(JSONValue.string))
    }

    /// The claim is this truth value.
    public static func == (left: ClaimAttribute, right: Bool) -> CredentialQuery { left.equals(.bool(right)) }
    /// The claim is this number.
    public static func == (left: ClaimAttribute, right: Int) -> CredentialQuery { left.equals(.number(Double(right))) }
    /// The claim is not this text; nil: there is such a claim.
    public static func != (left: ClaimAttribute, right: String?) -> CredentialQuery { !(left == right) }
    /// The claim is not this truth value.
    public static func != (left: ClaimAttribute, right: Bool) -> CredentialQuery { !(left == right) }
    /// The claim is not this number.
    public static func != (left: ClaimAttribute, right: Int) -> CredentialQuery { !(left == right) }
}
