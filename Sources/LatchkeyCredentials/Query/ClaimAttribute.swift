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

    public static func == (left: ClaimAttribute, right: String?) -> CredentialQuery {
        left.equals(right.map(JSONValue.string))
    }

    public static func == (left: ClaimAttribute, right: Bool) -> CredentialQuery { left.equals(.bool(right)) }
    public static func == (left: ClaimAttribute, right: Int) -> CredentialQuery { left.equals(.number(Double(right))) }
    public static func != (left: ClaimAttribute, right: String?) -> CredentialQuery { !(left == right) }
    public static func != (left: ClaimAttribute, right: Bool) -> CredentialQuery { !(left == right) }
    public static func != (left: ClaimAttribute, right: Int) -> CredentialQuery { !(left == right) }
}
