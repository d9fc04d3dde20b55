internal import Latchkey

/// The id of a token, in a query.
public struct IDAttribute: Sendable {
    /// The credential with this id.
    public static func == (left: IDAttribute, right: String) -> CredentialQuery {
        CredentialQuery(records: .id(CredentialRows.metadataID(right)))
    }

    /// Every credential but the one with this id.
    public static func != (left: IDAttribute, right: String) -> CredentialQuery { !(left == right) }
}
