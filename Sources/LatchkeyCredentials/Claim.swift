internal import FoundationEssentials
public import LatchkeyJOSE

/// The name of a claim (OpenID Connect Core sections 2 and 5.1).
public struct Claim: RawRepresentable, Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
    public let rawValue: String

    public init(rawValue: String) { self.rawValue = rawValue }
    public init(stringLiteral value: String) { rawValue = value }

    public var description: String { rawValue }

    /// `sub`: the server's id of the user (section 2).
    public static let subject: Claim = "sub"
    /// `iss`: the server (section 2).
    public static let issuer: Claim = "iss"
    /// `aud`: the clients that the token is for (section 2).
    public static let audience: Claim = "aud"
    /// `name`: the user's full name (section 5.1).
    public static let name: Claim = "name"
    /// `given_name` (section 5.1).
    public static let givenName: Claim = "given_name"
    /// `family_name` (section 5.1).
    public static let familyName: Claim = "family_name"
    /// `preferred_username`: the short name that the user prefers (section 5.1).
    public static let preferredUsername: Claim = "preferred_username"
    /// `email`: the preferred email address (section 5.1).
    public static let email: Claim = "email"
    /// `email_verified`: whether the server has verified the email address (section 5.1).
    public static let emailVerified: Claim = "email_verified"
    /// `phone_number`, preferably in the form of E.164 (section 5.1).
    public static let phoneNumber: Claim = "phone_number"
    /// `locale`, a language tag (BCP 47) (section 5.1).
    public static let locale: Claim = "locale"

    /// Claims about the token, not the user. They change with every token, so they are not searched.
    static let aboutTheToken: Set<String> = [
        "exp", "iat", "nbf", "auth_time", "nonce", "at_hash", "c_hash", "s_hash", "ds_hash", "jti", "sid", "amr", "acr",
        "azp", "ver",
    ]
}

/// A value with OpenID Connect claims about a user.
public protocol HasClaims {
    /// All claims by their names, not verified.
    var claims: [String: JSONValue] { get }
}

extension HasClaims {
    /// The value of a claim: `metadata[.email]`, `metadata["department"]`.
    public subscript(claim: Claim) -> JSONValue? { claims[claim.rawValue] }

    /// The user's id (`sub`): unique at the issuer, and never reassigned.
    public var subject: String? { self[.subject]?.string }
    /// The server (`iss`).
    public var issuer: String? { self[.issuer]?.string }
    /// The client ids that the claims are for (`aud`).
    public var audience: [String] { self[.audience]?.texts ?? [] }
    /// The user's full name.
    public var name: String? { self[.name]?.string }
    /// The short name that the user prefers; not unique.
    public var preferredUsername: String? { self[.preferredUsername]?.string }
    /// The user's preferred email address.
    public var email: String? { self[.email]?.string }
}

extension JSONValue {
    /// The text, or the texts of an array.
    var texts: [String]? {
        switch self {
        case .string(let text): [text]
        case .array(let values): values.compactMap(\.string)
        default: nil
        }
    }
}

/// A signed JSON Web Token in compact form (RFC 7519), decoded. The signature is not verified.
public struct JWT: Hashable, Sendable, HasClaims {
    /// The compact form: three parts in base64url.
    public let rawValue: String
    public let claims: [String: JSONValue]

    /// - Returns: nil unless the text is a compact JWS whose payload is a JSON object.
    package init?(_ compact: String) {
        guard
            let parts = JWS.parse(compact),
            let claims = try? JSONDecoder().decode([String: JSONValue].self, from: parts.payload)
        else { return nil }
        rawValue = compact
        self.claims = claims
    }
}

extension JWT: CustomStringConvertible, CustomReflectable {
    public var description: String { "‹JWT›" }
    public var customMirror: Mirror { Mirror(self, children: []) }
}
