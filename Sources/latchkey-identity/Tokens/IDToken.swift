import FoundationEssentials
import JWTKit

/// An ID token's claims (OpenID Connect Core section 2), with those that Authgear adds.
struct IDToken: JWTPayload {
    /// Seconds from the issue on.
    static let lifetime = 300

    let issuer: String
    let audience: [String]
    let subject: String
    let issuedAt: Int
    let expiresAt: Int
    let authTime: Int
    let sessionID: String
    let amr: [String]?
    let nonce: String?
    let isAnonymous: Bool
    let isVerified: Bool
    let canReauthenticate: Bool

    enum CodingKeys: String, CodingKey {
        case issuer = "iss"
        case audience = "aud"
        case subject = "sub"
        case issuedAt = "iat"
        case expiresAt = "exp"
        case authTime = "auth_time"
        case sessionID = "sid"
        case amr, nonce
        case isAnonymous = "https://authgear.com/claims/user/is_anonymous"
        case isVerified = "https://authgear.com/claims/user/is_verified"
        case canReauthenticate = "https://authgear.com/claims/user/can_reauthenticate"
    }

    /// Nothing beyond the signature: a token that comes back as a hint may have expired.
    func verify(using algorithm: some JWTAlgorithm) {}
}
