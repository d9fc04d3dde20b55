internal import Latchkey

/// What is known of a credential, for conditions: the same names as in ``Token/Metadata``.
public struct CredentialFields: Sendable {
    /// The tags, by name.
    public struct Tags: Sendable {
        public subscript(name: String) -> CredentialField {
            let attribute = CredentialRows.tag(name)
            return CredentialField(equals: { .attribute(attribute, is: $0) }, exists: .hasAttribute(attribute))
        }
    }

    init() {}

    /// The credential's id.
    public var id: CredentialField { CredentialField(equals: { .id(CredentialRows.id($0)) }, exists: .all) }
    /// What the app called it.
    public var tags: Tags { Tags() }
    /// Who issued the ID token (`iss`).
    public var issuer: CredentialField { self["iss"] }
    /// Whom it is about (`sub`).
    public var subject: CredentialField { self["sub"] }
    /// The full name.
    public var name: CredentialField { self["name"] }
    /// The name by which the person wants to be called.
    public var preferredUsername: CredentialField { self["preferred_username"] }
    /// The mail address.
    public var email: CredentialField { self["email"] }

    /// A claim of the ID token that is text.
    public subscript(claim: String) -> CredentialField {
        let attribute = CredentialRows.claim(claim)
        return CredentialField(
            equals: { value in (try? CredentialRows.text(.string(value))).map { .attribute(attribute, is: $0) } },
            exists: .hasAttribute(attribute))
    }
}
