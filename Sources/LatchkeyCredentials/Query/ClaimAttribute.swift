public import Latchkey

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
