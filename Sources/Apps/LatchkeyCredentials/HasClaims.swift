public import FoundationEssentials
public import Latchkey
public import LatchkeyJOSE
internal import LatchkeyOAuth

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
    /// The value of a claim as a type: `let level: Int? = metadata["level"]`.
    ///
    /// - Returns: nil if the claim is missing or cannot be converted.
    public subscript<Value: ClaimConvertable>(claim: String) -> Value? {
        claims[claim].flatMap(Value.convert)
    }
    /// The value of a claim as a type: `let groups: [String]? = info[.groups]`.
    ///
    /// - Returns: nil if the claim is missing or cannot be converted.
    public subscript<Value: ClaimConvertable>(claim: ClaimName) -> Value? { self[claim.rawValue] }

    /// The value of a claim that must exist.
    ///
    /// - Throws: ``CredentialError`` with code `invalidToken` if the claim is missing or cannot be
    ///   converted.
    public func value<Value: ClaimConvertable>(
        for claim: String
    ) throws(CredentialError) -> Value {
        guard let value: Value = self[claim] else {
            throw CredentialError(
                operation: "read a claim", code: .invalidToken,
                reason:
                    "the claim ‘\(String(oneLine: claim, limit: 64))’ is missing, or not of the "
                    + "type \(Value.self)",
                recovery: "Ask the server's operator whether this client gets the claim.")
        }
        return value
    }
    /// The value of a claim that must exist; see ``value(for:)-(String)``.
    public func value<Value: ClaimConvertable>(
        for claim: ClaimName
    ) throws(CredentialError) -> Value {
        try value(for: claim.rawValue)
    }

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
    /// Whether the server has verified the email address.
    public var emailVerified: Bool? { self[.emailVerified] }
    /// The user's given names.
    public var givenName: String? { self[.givenName] }
    /// The user's family names.
    public var familyName: String? { self[.familyName] }
    /// The user's time zone, for example `Europe/Paris`.
    public var zoneinfo: String? { self[.zoneinfo] }
    /// The user's language, for example `en-US` (RFC 5646).
    public var locale: String? { self[.locale] }
    /// When the server last changed the claims about the user.
    public var updatedAt: Date? { self[.updatedAt] }
}

/// The names of claims about a user and a token (OpenID Connect Core sections 2 and 5.1, RFC 7519,
/// RFC 9068), for a subscript: `info[.email]`.
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
    /// When the token expires, may be used first, and was issued; and its name.
    case expirationTime = "exp", notBefore = "nbf", issuedAt = "iat", jwtId = "jti"
    /// The client of the token, for the server and for a resource.
    case authorizedParty = "azp", clientId = "client_id"
    /// The login: its nonce, time and class.
    case nonce, authTime = "auth_time", authContextClassReference = "acr"
    /// The methods of the login, and the session that it began.
    case authMethodsReference = "amr", sessionId = "sid"
    /// What the token permits.
    case scope, roles, groups, entitlements
}

/// A signed JSON Web Token in compact form (RFC 7519), decoded. ``CredentialStore/validate(_:nonce:code:maximumLoginAge:)``
/// verifies an ID token, ``validate(using:)`` only the signature.
public struct JWT: Hashable, Sendable, HasClaims {
    private let compact: Redacted<String>
    private let payload: Redacted<[String: JSONValue]>

    /// The compact form: three parts in base64url.
    public var rawValue: String { compact.value }
    public var claims: [String: JSONValue] { payload.value }

    /// Reads a token. Does not verify it.
    ///
    /// - Throws: ``CredentialError`` with code `invalidToken` unless the text is a compact JWS whose
    ///   payload is a JSON object.
    public init(_ token: String) throws(CredentialError) {
        do throws(JWSFlaw) {
            try self.init(reading: token)
        } catch {
            throw CredentialError(.idToken(IDTokenFlaw(error))).during("read the token")
        }
    }

    init(reading compact: String) throws(JWSFlaw) {
        payload = Redacted(value: try ReceivedJWS(compact).payload)
        self.compact = Redacted(value: compact)
    }

    /// When the token expires (`exp`).
    public var expirationTime: Date? { self[.expirationTime] }
    /// When the token was issued (`iat`).
    public var issuedAt: Date? { self[.issuedAt] }

    /// Whether one of the keys made the signature. Checks no claim: the token may have expired, and
    /// may be for another client.
    ///
    /// - Returns: false for a wrong signature.
    /// - Throws: ``CredentialError``: `invalidToken` if the set does not have the key that the token
    ///   names, or the signature has another length than those of its algorithm; `unsupported` for an
    ///   algorithm that is not supported.
    public func validate(using keySet: JWKS) throws(CredentialError) -> Bool {
        do throws(JWSFlaw) {
            try ReceivedJWS(rawValue).verify(with: keySet)
            return true
        } catch {
            if case .signature = error.code { return false }
            throw CredentialError(.idToken(IDTokenFlaw(error))).during("verify the token")
        }
    }
}

extension JWK {
    /// Whether this key made the token's signature; see `JWT.validate(using:)`.
    public func verify(token: JWT) throws(CredentialError) -> Bool {
        try token.validate(using: JWKS(keys: [self]))
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
