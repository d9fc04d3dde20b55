public import Latchkey

/// Something that says things about a user, as the claims of OpenID Connect.
public protocol HasClaims {
    /// All claims by their names. That they are here says nothing about who wrote them.
    var claims: [String: JSONValue] { get }
}

extension HasClaims {
    /// The value of a claim: `metadata[.email]`, `metadata["department"]`.
    public subscript(claim: Claim) -> JSONValue? { claims[claim.rawValue] }

    /// Who the user is (`sub`): unique at the issuer, and never given to somebody else.
    public var subject: String? { self[.subject]?.string }
    /// Who says so (`iss`).
    public var issuer: String? { self[.issuer]?.string }
    /// For whom it is said (`aud`): the client ids.
    public var audience: [String] { self[.audience]?.texts ?? [] }
    /// The user's full name.
    public var name: String? { self[.name]?.string }
    /// The name by which the user wants to be called; not unique.
    public var preferredUsername: String? { self[.preferredUsername]?.string }
    /// The user's preferred address.
    public var email: String? { self[.email]?.string }
}

extension JSONValue {
    /// One text, or all texts of an array.
    var texts: [String]? {
        switch self {
        case .string(let text): [text]
        case .array(let values): values.compactMap(\.string)
        default: nil
        }
    }
}
