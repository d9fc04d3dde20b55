internal import Latchkey

/// The id of a token, in a query.
public struct IDAttribute: Sendable {
    public static func == (left: IDAttribute, right: String) -> CredentialQuery {
        CredentialQuery(records: .id(CredentialRows.metadataID(right)))
    }

    public static func != (left: IDAttribute, right: String) -> CredentialQuery { !(left == right) }
}
