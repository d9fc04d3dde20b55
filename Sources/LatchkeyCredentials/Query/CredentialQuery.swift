internal import Latchkey

/// Which credentials are wanted. It is answered from an index, without the hardware, and looks only at what matches.
///
/// Make one from ``CredentialAttributes``, and combine them with `&&`, `||` and `!`.
public struct CredentialQuery: Hashable, Sendable {
    let records: RecordQuery

    /// Every credential.
    public static let all = CredentialQuery(records: .all)

    /// Both hold.
    public static func && (left: CredentialQuery, right: CredentialQuery) -> CredentialQuery {
        CredentialQuery(records: .and(left.records, right.records))
    }

    /// One of both holds, or both do.
    public static func || (left: CredentialQuery, right: CredentialQuery) -> CredentialQuery {
        CredentialQuery(records: .or(left.records, right.records))
    }

    /// It does not hold.
    public static prefix func ! (query: CredentialQuery) -> CredentialQuery {
        CredentialQuery(records: .not(query.records))
    }
}
