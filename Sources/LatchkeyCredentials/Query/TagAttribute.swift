internal import Latchkey

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
