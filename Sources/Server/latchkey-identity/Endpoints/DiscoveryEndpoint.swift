import FoundationEssentials
import Hummingbird
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty

/// The discovery document (OpenID Connect Discovery 1.0 section 3) and the key set.
struct DiscoveryEndpoint: Sendable {
    let services: IdentityServices

    /// The discovery document. `LockerProtocol.md` describes the locker's members.
    ///
    /// Three members advertise extensions of biometric login. A client uses an extension only if
    /// its member is present:
    /// - `biometric_removal_endpoint`, a URL: POST `{"kid": …}` with a bearer token removes a
    ///   biometric identity of the token's user.
    /// - `biometric_login_hint_supported`, a Boolean: `/oauth2/authorize` accepts a `login_hint` of
    ///   the form `https://authgear.com/login_hint?type=user_id&user_id=SUB`, and then only that
    ///   user can log in.
    /// - `biometric_audience_required`, a Boolean: a biometric request must contain the claims
    ///   `aud`, the issuer, and `client_id`, the form's.
    ///
    /// `dpop_signing_alg_values_supported` (RFC 9449 section 5.1) is present if a client must use
    /// proofs of its key.
    ///
    /// Three members announce attestation. Without them, clients send no attestation and no
    /// certificates:
    /// - `attestation_endpoint`, a URL: below it, `activation` certifies an attestation key.
    /// - `attestation_formats_supported`: `tpm`, `piv` or both.
    /// - `attestation_required`: the requirement for new keys. With `?client_id=` in the document's
    ///   URL, that client's.
    func document(_ request: Request, _ context: IdentityContext) throws -> Response {
        let origin = try services.issuer
        let endpoint = { (path: String) in JSONValue.string(origin + path) }
        let grantTypes = [
            TokenEndpoint.GrantType.authorizationCode, .refreshToken, .easyAccess,
            .backgroundAccess,
        ]
        var document: [String: JSONValue] = [
            "issuer": .string(origin),
            "authorization_endpoint": endpoint("/oauth2/authorize"),
            "token_endpoint": endpoint("/oauth2/token"),
            "userinfo_endpoint": endpoint("/oauth2/userinfo"),
            "revocation_endpoint": endpoint("/oauth2/revoke"),
            "jwks_uri": endpoint("/oauth2/jwks"),
            "scopes_supported": .array(Scope.all.map(JSONValue.string)),
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
            "authorization_response_iss_parameter_supported": true,
            "code_challenge_methods_supported": ["S256"],
            // Without these members, clients assume other values.
            "token_endpoint_auth_methods_supported": ["none"],
            "revocation_endpoint_auth_methods_supported": ["none"],
            "request_uri_parameter_supported": false,
            "claims_supported": [
                "iss", "aud", "iat", "exp", "sub", "sid", "auth_time", "amr", "nonce",
            ],
            "prompt_values_supported": ["none", "login", "consent", "select_account"],
            "grant_types_supported": .array(grantTypes.map { .string($0.rawValue) }),
            "biometric_removal_endpoint": endpoint("/api/identity/biometric/remove"),
            "biometric_login_hint_supported": true,
            "biometric_audience_required": true,
            "locker_enrolment_endpoint": endpoint(LockerEndpoints.path),
            "locker_level_shares_supported": .bool(
                services.configuration.extensions.locker.levelShares),
            "locker_background_scopes_supported": .array(Scope.background.map(JSONValue.string)),
        ]
        if services.configuration.bindsTokens {
            document["dpop_signing_alg_values_supported"] = .array(
                DPoPVerifier.algorithms.map(JSONValue.string))
        }
        if let attestation = services.attestation {
            let client = request.queryFields?["client_id"].flatMap(services.configuration.client)
            document["attestation_endpoint"] = endpoint(AttestationEndpoints.path)
            document["attestation_formats_supported"] = .array(
                attestation.formats.map(JSONValue.string))
            document["attestation_required"] = .string(
                attestation.requirement(client).level.rawValue)
        }
        return try .json(document).cachedForAnHour
    }

    func keys(_ request: Request, _ context: IdentityContext) throws -> Response {
        try .json(["keys": [services.signer.published]]).cachedForAnHour
    }
}

/// Issues challenges: POST `/oauth2/challenge`.
struct ChallengeEndpoint: Sendable {
    let services: IdentityServices

    func issue(_ request: Request, _ context: IdentityContext) async throws -> Response {
        struct Body: Decodable { let purpose: String }
        let body = try await request.body(Body.self)
        guard let purpose = ChallengePurpose(rawValue: body.purpose) else {
            throw APIError.invalidBody("‘purpose’ has an unknown value")
        }
        let challenge = try await services.challenges.issue(purpose)
        return try .json([
            "result": [
                "token": challenge.token, "expire_at": challenge.expiresAt.formatted(.iso8601),
            ]
        ])
    }
}
