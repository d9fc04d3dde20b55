internal import Latchkey

/// Which credentials are wanted: conditions on ``CredentialFields``, joined with `&&`, `||` and `!`. It is answered from
/// an index.
public struct CredentialQuery: Sendable {
    let query: RecordQuery

    public static func && (left: CredentialQuery, right: CredentialQuery) -> CredentialQuery {
        CredentialQuery(query: .and(left.query, right.query))
    }

    public static func || (left: CredentialQuery, right: CredentialQuery) -> CredentialQuery {
        CredentialQuery(query: .or(left.query, right.query))
    }

    public static prefix func ! (condition: CredentialQuery) -> CredentialQuery {
        CredentialQuery(query: .not(condition.query))
    }
}
