internal import Latchkey
internal import LatchkeyOAuth

/// The part of `/.well-known/openid-configuration` (OpenID Connect Discovery 1.0 section 3) that credentials need.
/// Addresses that a token must not be sent to make the whole document unusable.
struct ProviderMetadata: Decodable, Hashable, Sendable {
    /// Where the document is, below the issuer's address.
    static let path = "/.well-known/openid-configuration"

    let issuer: String
    /// Whether each authorization response names the issuer (RFC 9207).
    let sendsIssuer: Bool?
    let token: Endpoint
    let keys: Endpoint
    let userInfo: Endpoint?
    let revocation: Endpoint?
    let introspection: Endpoint?
    /// How a client with a secret says who it is; where nothing is said, with HTTP Basic.
    let authenticationMethods: [String]?

    private enum CodingKeys: String, CodingKey {
        case issuer
        case sendsIssuer = "authorization_response_iss_parameter_supported"
        case token = "token_endpoint"
        case keys = "jwks_uri"
        case userInfo = "userinfo_endpoint"
        case revocation = "revocation_endpoint"
        case introspection = "introspection_endpoint"
        case authenticationMethods = "token_endpoint_auth_methods_supported"
    }

    /// What decides where secrets may go.
    var metadata: IssuerMetadata { IssuerMetadata(issuer: issuer, sendsIssuer: sendsIssuer ?? false) }

    /// Whether a secret goes into the form instead of into the header.
    var takesSecretInForm: Bool {
        guard let authenticationMethods else { return false }
        return !authenticationMethods.contains("client_secret_basic")
            && authenticationMethods.contains("client_secret_post")
    }
}
