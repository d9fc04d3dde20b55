internal import Latchkey
internal import LatchkeyOAuth

/// The part of the server's discovery document that a locker needs: see <doc:LockerProtocol>.
struct LockerDiscovery: Decodable, Sendable {
    /// Where the document is, below the server's address.
    static let path = "/.well-known/openid-configuration"

    let issuer: String
    /// Whether each authorization response names the issuer (RFC 9207).
    let sendsIssuer: Bool
    let authorization: Endpoint
    let token: Endpoint
    let keys: Endpoint
    /// nil where the server has no locker.
    let enrolment: Endpoint?
    /// Whether the server keeps shares of level keys.
    let hasLevelShares: Bool
    /// The scopes that background access may have at most.
    let backgroundScopes: [String]

    private enum CodingKeys: String, CodingKey {
        case issuer
        case sendsIssuer = "authorization_response_iss_parameter_supported"
        case authorization = "authorization_endpoint"
        case token = "token_endpoint"
        case keys = "jwks_uri"
        case enrolment = "locker_enrolment_endpoint"
        case levelShares = "locker_level_shares_supported"
        case backgroundScopes = "locker_background_scopes_supported"
    }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        issuer = try container.decode(String.self, forKey: .issuer)
        sendsIssuer = try container.decodeIfPresent(Bool.self, forKey: .sendsIssuer) ?? false
        authorization = try container.decode(Endpoint.self, forKey: .authorization)
        token = try container.decode(Endpoint.self, forKey: .token)
        keys = try container.decode(Endpoint.self, forKey: .keys)
        enrolment = try container.decodeIfPresent(Endpoint.self, forKey: .enrolment)
        hasLevelShares = try container.decodeIfPresent(Bool.self, forKey: .levelShares) ?? false
        backgroundScopes = try container.decodeIfPresent([String].self, forKey: .backgroundScopes) ?? []
        guard let origin = Endpoint(issuer)?.origin,
            [authorization, token, keys].allSatisfy({ $0.origin == origin }), enrolment?.origin ?? origin == origin,
            enrolment?.path.contains("?") != true
        else {
            throw DecodingError.dataCorruptedError(
                forKey: .issuer, in: container, debugDescription: "endpoints of another origin")
        }
    }

    /// What names the server.
    var metadata: IssuerMetadata { IssuerMetadata(issuer: issuer, sendsIssuer: sendsIssuer) }

    /// Where challenges are given out.
    var challenge: Endpoint { authorization.onSameOrigin(path: "/oauth2/challenge") }
}
