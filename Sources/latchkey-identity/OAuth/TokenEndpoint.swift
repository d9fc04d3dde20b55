import FoundationEssentials
import Hummingbird
import Latchkey
import LatchkeyRelyingParty

/// Exchanges proofs for tokens: POST `/oauth2/token`.
struct TokenEndpoint: Sendable {
    enum GrantType: String {
        case authorizationCode = "authorization_code"
        case refreshToken = "refresh_token"
        case biometricRequest = "urn:authgear:params:oauth:grant-type:biometric-request"
        case idToken = "urn:authgear:params:oauth:grant-type:id-token"
        case easyAccess = "urn:latchkey:params:oauth:grant-type:easy-access"
        case backgroundAccess = "urn:latchkey:params:oauth:grant-type:background-access"
    }

    let services: IdentityServices

    func exchange(_ request: Request, _ context: IdentityContext) async throws -> Response {
        var request = request
        guard services.tokenLimit.admit(context.network) else {
            var refusal = OAuthError.rateLimited
            refusal.retryAfter = services.tokenLimit.secondsToWait(context.network)
            throw refusal
        }
        let form = try await request.form(context)
        guard let client = form["client_id"].flatMap(services.configuration.client) else {
            throw OAuthError("invalid_client", "invalid client ID")
        }
        guard let name = form["grant_type"] else { throw OAuthError.invalidRequest("grant_type is required") }
        guard let type = GrantType(rawValue: name) else {
            throw OAuthError("unsupported_grant_type", "grant type is not supported")
        }
        if type == .biometricRequest {
            return try await biometric(form, client: client, bearer: request.bearerToken)
        }
        guard client.kind.isFirstPartyPublic else {
            throw OAuthError.unauthorizedClient("grant type is not allowed for this client")
        }
        return switch type {
        case .authorizationCode: try await authorizationCode(form, client: client)
        case .refreshToken: try await refresh(form, client: client)
        case .idToken: try await idToken(client: client, bearer: request.bearerToken)
        case .easyAccess: try await easyAccess(form, client: client)
        case .backgroundAccess: try await backgroundAccess(form, client: client)
        case .biometricRequest: throw OAuthError.serverError
        }
    }

    /// The JSON in `x_device_info`, if there is any.
    func deviceInfo(_ form: FormFields) throws(OAuthError) -> String? {
        guard let encoded = form["x_device_info"] else { return nil }
        guard
            let json = Base64URL.decode(encoded), let value = try? JSONDecoder().decode(JSONValue.self, from: json),
            value.object != nil
        else { throw .invalidRequest("failed to decode x_device_info") }
        let text = String(decoding: json, as: UTF8.self)
        guard DeviceInfo(value) != nil else { throw .invalidRequest("invalid device info: \(text)") }
        return text
    }

    /// A new grant; the tokens come from ``tokens(for:user:client:nonce:)``.
    func grant(
        _ proof: GrantProof, id: String = UUID().uuidString.lowercased(), user: User, client: ClientConfiguration,
        scope: String, authTime: Double, deviceInfo: String?
    ) -> Grant {
        let now = services.clock.now.timeIntervalSince1970
        let offline = scope.split(separator: " ").contains(Substring(Scope.offlineAccess))
        let lifetime = Double(offline ? client.refreshTokenLifetime : client.accessTokenLifetime)
        return Grant(
            id: id, clientID: client.id, userID: user.id, deviceID: proof.deviceID, enrolmentID: proof.enrolmentID,
            easyAccessKeyID: proof.easyAccessKeyID, scope: scope, amr: proof.amr, authTime: authTime,
            expiresAt: now + lifetime,
            idleExpiresAt: now + (offline ? Double(client.refreshTokenIdleTimeout) : lifetime), deviceInfo: deviceInfo)
    }

    /// New tokens of a grant. Nothing is stored yet.
    func tokens(
        for grant: Grant, user: User, client: ClientConfiguration, nonce: String? = nil, withRefreshToken: Bool = true
    ) async throws -> TokenResponse {
        let random = services.random
        return TokenResponse(
            accessToken: OpaqueToken.bytes(random), expiresIn: client.accessTokenLifetime,
            refreshToken: withRefreshToken && grant.scopes.contains(Scope.offlineAccess)
                ? "\(grant.id).\(OpaqueToken.alphanumeric(random))" : nil,
            idToken: grant.scopes.contains(Scope.openID) && grant.hasUser
                ? try await idToken(of: grant, user: user, nonce: nonce) : nil)
    }

    func idToken(of grant: Grant, user: User, nonce: String?) async throws -> String {
        let now = services.clock.seconds
        return try await services.signer.sign(
            IDToken(
                issuer: try services.issuer, audience: [grant.clientID], subject: user.id, issuedAt: now,
                expiresAt: now + IDToken.lifetime, authTime: Int(grant.authTime), sessionID: grant.sessionID,
                amr: grant.amr?.references, nonce: nonce, isAnonymous: user.isAnonymous, isVerified: false,
                canReauthenticate: !user.isAnonymous))
    }
}
