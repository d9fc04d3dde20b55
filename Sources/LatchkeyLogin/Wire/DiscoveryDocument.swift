internal import Latchkey
internal import LatchkeyOAuth

/// The part of `/.well-known/openid-configuration` (OpenID Connect Discovery 1.0 section 3) that a container needs.
struct DiscoveryDocument: Decodable, Hashable, Sendable {
    /// Where the document is, below the server's address.
    static let path = "/.well-known/openid-configuration"

    let issuer: String
    /// Whether each authorization response names the issuer (RFC 9207).
    let sendsIssuer: Bool
    let authorization: Endpoint
    let token: Endpoint
    let userInfo: Endpoint
    let revocation: Endpoint
    let keys: Endpoint
    /// Where a device can have its biometric identity removed. Deployed Authgear servers have no such place.
    let biometricRemoval: Endpoint?
    /// Whether the authorization endpoint takes a `login_hint` that pins the user by id. Deployed Authgear servers
    /// fail on one.
    let takesUserIDHint: Bool
    /// Whether a biometric request must name the server and the client: `biometric_audience_required`. Deployed Authgear
    /// servers do not look at these claims.
    let requiresAudience: Bool

    private enum CodingKeys: String, CodingKey {
        case issuer
        case sendsIssuer = "authorization_response_iss_parameter_supported"
        case authorization = "authorization_endpoint"
        case token = "token_endpoint"
        case userInfo = "userinfo_endpoint"
        case revocation = "revocation_endpoint"
        case keys = "jwks_uri"
        case biometricRemoval = "biometric_removal_endpoint"
        case takesUserIDHint = "biometric_login_hint_supported"
        case requiresAudience = "biometric_audience_required"
    }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        issuer = try container.decode(String.self, forKey: .issuer)
        sendsIssuer = try container.decodeIfPresent(Bool.self, forKey: .sendsIssuer) ?? false
        authorization = try container.decode(Endpoint.self, forKey: .authorization)
        token = try container.decode(Endpoint.self, forKey: .token)
        userInfo = try container.decode(Endpoint.self, forKey: .userInfo)
        revocation = try container.decode(Endpoint.self, forKey: .revocation)
        keys = try container.decode(Endpoint.self, forKey: .keys)
        biometricRemoval = try container.decodeIfPresent(Endpoint.self, forKey: .biometricRemoval)
        requiresAudience = try container.decodeIfPresent(Bool.self, forKey: .requiresAudience) ?? false
        takesUserIDHint = try container.decodeIfPresent(Bool.self, forKey: .takesUserIDHint) ?? false
    }

    /// What decides where secrets may go.
    var metadata: IssuerMetadata { IssuerMetadata(issuer: issuer, sendsIssuer: sendsIssuer) }

    /// The endpoints that get codes, tokens, signatures or a user's ID token.
    var secretEndpoints: [Endpoint] {
        [authorization, token, userInfo, revocation] + (biometricRemoval.map { [$0] } ?? [])
    }

    /// Where challenges are given out: on the origin of the authorization endpoint, wherever the document was.
    var challenge: Endpoint { authorization.onSameOrigin(path: "/oauth2/challenge") }
}
