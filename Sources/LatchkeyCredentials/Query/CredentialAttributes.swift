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
