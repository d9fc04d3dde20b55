import Hummingbird
import Latchkey

/// The discovery document (OpenID Connect Discovery 1.0 section 3) and the key set.
struct DiscoveryEndpoint: Sendable {
    let services: IdentityServices

    /// The discovery document. `LockerProtocol.md` describes the locker's members.
    ///
    /// Three members advertise extensions of this server. A client uses an extension only if its member is present:
    /// - `biometric_removal_endpoint`, a URL: POST `{"kid": …}` with a bearer token removes a biometric identity of the
    ///   token's user.
    /// - `biometric_login_hint_supported`, a Boolean: `/oauth2/authorize` accepts a `login_hint` of the form
    ///   `https://authgear.com/login_hint?type=user_id&user_id=SUB`, and then only that user can log in.
    /// - `biometric_audience_required`, a Boolean: a biometric request must contain the claims `aud`, the issuer, and
    ///   `client_id`, the form's.
    struct Document: Encodable {
        let issuer: String
        let authorization_endpoint: String
        let token_endpoint: String
        let userinfo_endpoint: String
        let revocation_endpoint: String
        let end_session_endpoint: String
        let jwks_uri: String
        let scopes_supported = Scope.all
        let response_types_supported = ["code"]
        let response_modes_supported = ["query"]
        let grant_types_supported: [String]
        let subject_types_supported = ["public"]
        let id_token_signing_alg_values_supported: [String]
        let authorization_response_iss_parameter_supported = true
        let code_challenge_methods_supported = ["S256"]
        let token_endpoint_auth_methods_supported = ["none"]
        let claims_supported = ["iss", "aud", "iat", "exp", "sub", "sid", "auth_time", "amr", "nonce"]
        let prompt_values_supported = ["none", "login", "consent", "select_account"]
        let biometric_removal_endpoint: String?
        let biometric_login_hint_supported: Bool?
        let biometric_audience_required: Bool?
        let locker_enrolment_endpoint: String?
        let locker_level_shares_supported: Bool?
        let locker_background_scopes_supported: [String]?
    }

    func document(_ request: Request, _ context: IdentityContext) throws -> Response {
        let origin = try services.issuer
        let extensions = services.configuration.extensions
        let locker = services.locker
        let lockerGrants: [TokenEndpoint.GrantType] = locker == nil ? [] : [.easyAccess, .backgroundAccess]
        return try .json(
            Document(
                issuer: origin, authorization_endpoint: origin + "/oauth2/authorize",
                token_endpoint: origin + "/oauth2/token", userinfo_endpoint: origin + "/oauth2/userinfo",
                revocation_endpoint: origin + "/oauth2/revoke", end_session_endpoint: origin + "/oauth2/end_session",
                jwks_uri: origin + "/oauth2/jwks",
                grant_types_supported: ([.authorizationCode, .refreshToken] + lockerGrants).map(\.rawValue),
                id_token_signing_alg_values_supported: [services.configuration.idTokenSigningAlgorithm.rawValue],
                biometric_removal_endpoint: extensions.biometricRemoval
                    ? origin + "/api/identity/biometric/remove" : nil,
                biometric_login_hint_supported: extensions.biometricLoginHint ? true : nil,
                biometric_audience_required: extensions.biometricAudience ? true : nil,
                locker_enrolment_endpoint: locker.map { _ in origin + LockerEndpoints.path },
                locker_level_shares_supported: locker?.configuration.levelShares,
                locker_background_scopes_supported: locker?.configuration.backgroundScopes))
    }

    func keys(_ request: Request, _ context: IdentityContext) throws -> Response {
        try .json(["keys": [services.signer.jwk]])
    }
}
