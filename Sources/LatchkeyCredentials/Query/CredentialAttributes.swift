internal import Latchkey

/// Stands for a credential's metadata where a ``CredentialQuery`` is written: it has the same members, and comparing
/// one with a value says what is wanted.
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
        public subscript(name: String) -> TagAttribute { TagAttribute(name: name) }
    }

    /// A claim of the ID token.
    public subscript(claim: Claim) -> ClaimAttribute { ClaimAttribute(claim: claim) }

    public var subject: ClaimAttribute { self[.subject] }
    public var issuer: ClaimAttribute { self[.issuer] }
    public var name: ClaimAttribute { self[.name] }
    public var preferredUsername: ClaimAttribute { self[.preferredUsername] }
    public var email: ClaimAttribute { self[.email] }
}
