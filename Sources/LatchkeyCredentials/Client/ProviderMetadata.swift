internal import FoundationEssentials
internal import Latchkey

/// The part of `/.well-known/openid-configuration` (OpenID Connect Discovery 1.0 section 3, RFC 8414 section 2) that
/// credentials need.
struct ProviderMetadata: Decodable, Hashable, Sendable {
    /// Where the document is, below the issuer's address.
    static let path = "/.well-known/openid-configuration"

    let issuer: String
    let token: Endpoint
    let keys: Endpoint?
    let userInfo: Endpoint?
    let revocation: Endpoint?
    let introspection: Endpoint?

    private enum CodingKeys: String, CodingKey {
        case issuer
        case token = "token_endpoint"
        case keys = "jwks_uri"
        case userInfo = "userinfo_endpoint"
        case revocation = "revocation_endpoint"
        case introspection = "introspection_endpoint"
    }
}
