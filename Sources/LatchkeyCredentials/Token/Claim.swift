/// The name of a claim (OpenID Connect Core sections 2 and 5.1).
public struct Claim: RawRepresentable, Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
    public let rawValue: String

    public init(rawValue: String) { self.rawValue = rawValue }
    public init(stringLiteral value: String) { rawValue = value }

    public var description: String { rawValue }

    public static let subject: Claim = "sub"
    public static let issuer: Claim = "iss"
    public static let audience: Claim = "aud"
    public static let name: Claim = "name"
    public static let givenName: Claim = "given_name"
    public static let familyName: Claim = "family_name"
    public static let preferredUsername: Claim = "preferred_username"
    public static let email: Claim = "email"
    public static let emailVerified: Claim = "email_verified"
    public static let phoneNumber: Claim = "phone_number"
    public static let locale: Claim = "locale"

    /// What an ID token says about itself and not about the user. It changes with every token, so nobody looks for it.
    static let ofTheTokenItself: Set<String> = [
        "exp", "iat", "nbf", "auth_time", "nonce", "at_hash", "c_hash", "s_hash", "ds_hash", "jti", "sid", "amr", "acr",
        "azp", "ver",
    ]
}
