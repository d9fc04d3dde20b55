/// What the token endpoint answers (RFC 6749 section 5.1, OpenID Connect Core section 3.1.3.3).
struct TokenResponse: Sendable, Encodable {
    var accessToken: String
    var tokenType = "Bearer"
    /// Seconds.
    var expiresIn: Int
    var refreshToken: String?
    var idToken: String?
    /// Space-separated; said where a client need not have asked for any.
    var scope: String?
    /// What a device gets besides, with a locker grant.
    var levelShares: ReleasedShares?

    enum CodingKeys: String, CodingKey {
        case accessToken = "access_token"
        case tokenType = "token_type"
        case expiresIn = "expires_in"
        case refreshToken = "refresh_token"
        case idToken = "id_token"
        case scope
        case levelShares = "level_shares"
    }
}
