/// The name of a claim (OpenID Connect Core sections 2 and 5.1).
public struct Claim: RawRepresentable, Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
    public let rawValue: String

    public init(rawValue: String) { self.rawValue = rawValue }
    public init(stringLiteral value: String) { rawValue = value }

    public var description: String { rawValue }

    /// `sub`: who the user is, by the server's name for them (section 2).
    public static let subject: Claim = "sub"
    /// `iss`: the server (section 2).
    public static let issuer: Claim = "iss"
    /// `aud`: the clients that it is for (section 2).
    public static let audience: Claim = "aud"
    /// `name`: the user's full name (section 5.1).
    public static let name: Claim = "name"
    /// `given_name` (section 5.1).
    public static let givenName: Claim = "given_name"
    /// `family_name` (section 5.1).
    public static let familyName: Claim = "family_name"
    /// `preferred_username`: what the user likes to be called (section 5.1).
    public static let preferredUsername: Claim = "preferred_username"
    /// `email`: the preferred address (section 5.1).
    public static let email: Claim = "email"
    /// `email_verified`: whether the server has seen that the address is the user's (section 5.1).
    public static let emailVerified: Claim = "email_verified"
    /// `phone_number`, best in the form of E.164 (section 5.1).
    public static let phoneNumber: Claim = "phone_number"
    /// `locale`, a language tag (BCP 47) (section 5.1).
    public static let locale: Claim = "locale"

    /// What an ID token says about itself and not about the user. It changes with every token, so nobody looks for it.
    static let ofTheTokenItself: Set<String> = [
        "exp", "iat", "nbf", "auth_time", "nonce", "at_hash", "c_hash", "s_hash", "ds_hash", "jti", "sid", "amr", "acr",
        "azp", "ver",
    ]
}
