internal import FoundationEssentials
public import LatchkeyJOSE

/// A value with OpenID Connect claims about a user (OpenID Connect Core sections 2 and 5.1).
public protocol HasClaims {
    /// All claims by their names, not verified.
    var claims: [String: JSONValue] { get }
}

extension HasClaims {
    /// The value of a claim: `metadata["given_name"]`.
    public subscript(claim: String) -> JSONValue? { claims[claim] }
    /// The value of a claim: `info[.email]`.
    public subscript(claim: ClaimName) -> JSONValue? { claims[claim.rawValue] }

    /// The user's id (`sub`): unique at the issuer, and never reassigned.
    public var subject: String? { self["sub"]?.string }
    /// The server (`iss`).
    public var issuer: String? { self["iss"]?.string }
    /// The client ids that the claims are for (`aud`).
    public var audience: [String] {
        switch self["aud"] {
        case .string(let text): [text]
        case .array(let values): values.compactMap(\.string)
        default: []
        }
    }
    /// The user's full name.
    public var name: String? { self["name"]?.string }
    /// The short name that the user prefers; not unique.
    public var preferredUsername: String? { self["preferred_username"]?.string }
    /// The user's preferred email address.
    public var email: String? { self["email"]?.string }
}

/// The names of claims about a user (OpenID Connect Core section 5.1), for a subscript: `info[.email]`.
public enum ClaimName: String, Hashable, Sendable {
    /// The user's id.
    case subject = "sub"
    /// The server.
    case issuer = "iss"
    /// The client ids that the claims are for.
    case audience = "aud"
    /// The user's names.
    case name, nickname, preferredUsername = "preferred_username"
    /// The parts of the user's full name.
    case givenName = "given_name", middleName = "middle_name", familyName = "family_name"
    /// The user's preferred email address, and whether the server has verified it.
    case email, emailVerified = "email_verified"
    /// The user's preferred phone number, and whether the server has verified it.
    case phoneNumber = "phone_number", phoneNumberVerified = "phone_number_verified"
    /// The user's pages.
    case profile, picture, website
    /// Other facts about the user.
    case gender, birthdate, zoneinfo, locale, address, updatedAt = "updated_at"
}

/// A signed JSON Web Token in compact form (RFC 7519), decoded. The signature is not verified.
public struct JWT: Hashable, Sendable, HasClaims {
    private let compact: Redacted<String>
    private let payload: Redacted<[String: JSONValue]>

    /// The compact form: three parts in base64url.
    public var rawValue: String { compact.value }
    public var claims: [String: JSONValue] { payload.value }

    /// - Returns: nil unless the text is a compact JWS whose payload is a JSON object.
    package init?(_ compact: String) {
        guard let token = try? JWT(reading: compact) else { return nil }
        self = token
    }

    init(reading compact: String) throws(JWSFlaw) {
        payload = Redacted(value: try ReceivedJWS(compact).payload)
        self.compact = Redacted(value: compact)
    }
}

/// A value that the description and the mirror of its containing value do not show.
struct Redacted<Value: Hashable & Sendable>: Hashable, Sendable, CustomStringConvertible,
    CustomReflectable
{
    let value: Value

    var description: String { "‹redacted›" }
    var customMirror: Mirror { Mirror(self, children: []) }
}
