public import FoundationEssentials
public import Latchkey

/// Something with claims: an ID token, what is known of a stored token, a user's data.
public protocol HasClaims {
    /// All claims by name, as the issuer wrote them.
    var claims: [String: JSONValue] { get }
}

extension HasClaims {
    /// A claim's value; nil without one.
    public subscript(claim: String) -> JSONValue? { claims[claim] }

    /// Who issued it (`iss`).
    public var issuer: String? { claims["iss"]?.string }
    /// Whom it is about (`sub`).
    public var subject: String? { claims["sub"]?.string }
    /// For whom it is (`aud`): one or several clients.
    public var audience: [String] {
        switch claims["aud"] {
        case .string(let one): [one]
        case .array(let several): several.compactMap(\.string)
        default: []
        }
    }
    /// When it ends (`exp`).
    public var expirationTime: Date? { date("exp") }
    /// When it was issued (`iat`).
    public var issuedTime: Date? { date("iat") }
    /// When the person was authenticated (`auth_time`).
    public var authenticationTime: Date? { date("auth_time") }
    /// The full name.
    public var name: String? { claims["name"]?.string }
    /// The name by which the person wants to be called; not unique.
    public var preferredUsername: String? { claims["preferred_username"]?.string }
    /// The mail address.
    public var email: String? { claims["email"]?.string }

    private func date(_ claim: String) -> Date? {
        claims[claim]?.number.map { Date(timeIntervalSince1970: $0) }
    }
}
