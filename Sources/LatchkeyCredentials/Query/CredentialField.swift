internal import Latchkey

/// One thing that is known of a credential, for conditions.
public struct CredentialField: Sendable {
    /// What it takes to have a value; nil for what no credential has.
    let equals: @Sendable (String) -> RecordQuery?
    let exists: RecordQuery

    /// Credentials for which it has this value.
    public static func == (field: CredentialField, value: String) -> CredentialQuery {
        CredentialQuery(query: field.equals(value) ?? .not(.all))
    }

    /// Credentials for which it has another value, or none.
    public static func != (field: CredentialField, value: String) -> CredentialQuery {
        !(field == value)
    }

    /// Credentials for which it has any value.
    public var isPresent: CredentialQuery { CredentialQuery(query: exists) }
}
