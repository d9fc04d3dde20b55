import FoundationEssentials
import Hummingbird
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty

/// The token endpoint: POST `/oauth2/token`.
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
        let form = try await request.form()
        let client = try services.client(form)
        guard let name = form["grant_type"] else {
            throw OAuthError.invalidRequest("grant_type is required")
        }
        guard let type = GrantType(rawValue: name) else {
            throw OAuthError("unsupported_grant_type", "grant type is not supported")
        }
        return switch type {
        case .authorizationCode: try await authorizationCode(request, form, client: client)
        case .refreshToken: try await refresh(request, form, client: client)
        case .idToken: try await idToken(request, client: client)
        case .easyAccess: try await easyAccess(request, form, client: client)
        case .backgroundAccess: try await backgroundAccess(request, form, client: client)
        case .biometricRequest: try await biometric(request, form, client: client)
        }
    }

    /// Creates a grant, without storing it.
    func grant(
        _ proof: GrantProof, id: String = UUID().uuidString.lowercased(), userID: String,
        client: ClientConfiguration,
        scope: String, authTime: Double, keyThumbprint: String?
    ) -> LoginGrant {
        let now = services.clock.timestamp
        let offline = scope.split(separator: " ").contains(Substring(Scope.offlineAccess))
        let lifetime = offline ? RefreshToken.lifetime : Double(client.accessTokenLifetime)
        return LoginGrant(
            id: id, clientID: client.id, userID: userID, deviceID: proof.deviceID,
            enrolmentID: proof.enrolmentID,
            easyAccessKeyID: proof.easyAccessKeyID, scope: scope, amr: proof.amr,
            authTime: authTime,
            expiresAt: now + lifetime,
            idleExpiresAt: now + (offline ? RefreshToken.idleTimeout : lifetime),
            keyThumbprint: keyThumbprint)
    }

    /// Creates the first tokens of a grant, without storing them.
    func firstTokens(of grant: LoginGrant, _ client: ClientConfiguration) -> NewTokens {
        NewTokens(
            expiresIn: client.accessTokenLifetime,
            keyThumbprint: client.dpop.accessTokenKey(grant.keyThumbprint),
            refresh: grant.scopes.contains(Scope.offlineAccess)
                ? RefreshToken(grantID: grant.id) : nil)
    }

    /// The response with stored tokens of a session.
    func response(
        _ tokens: NewTokens, of session: Session, nonce: String? = nil,
        levelShares: [String: String]? = nil
    ) throws -> Response {
        let hasIDToken = session.grant.scopes.contains(Scope.openID) && session.grant.hasUser
        return try .json(
            TokenResponse(
                tokens, of: session,
                idToken: hasIDToken ? try idToken(of: session, nonce: nonce) : nil,
                levelShares: levelShares))
    }

    func idToken(of session: Session, nonce: String?) throws -> String {
        let (user, grant, now) = (session.user, session.grant, services.clock.seconds)
        return try services.signer.sign(
            IDToken(
                issuer: try services.issuer, audience: [grant.clientID], subject: user.id,
                issuedAt: now,
                expiresAt: now + IDToken.lifetime, authTime: Int(grant.authTime),
                sessionID: grant.sessionID,
                amr: grant.amr?.references, nonce: nonce))
    }

    /// The authorization code grant (RFC 6749 section 4.1.3) with PKCE. A second use of a code
    /// revokes its grant.
    func authorizationCode(
        _ request: Request, _ form: FormFields, client: ClientConfiguration
    ) async throws -> Response {
        let proof = try services.proof(of: request)
        let invalidCode = OAuthError.invalidGrant("invalid authorization code")
        guard let text = form["code"] else { throw OAuthError.invalidRequest("code is required") }
        guard let verifier = form["code_verifier"] else {
            throw OAuthError.invalidRequest("code verifier is required")
        }
        guard let code = try await services.grants.code(text), code.clientID == client.id else {
            throw invalidCode
        }
        guard form["redirect_uri"] == code.redirectURI else {
            throw OAuthError.invalidGrant("invalid redirect URI")
        }
        guard code.accepts(verifier: verifier) else { throw invalidCode }
        // RFC 9449 section 10.
        guard code.keyThumbprint == nil || code.keyThumbprint == proof?.thumbprint else {
            throw OAuthError.invalidGrant("the authorization code is bound to another key")
        }
        guard !code.isUsed else {
            try await services.grants.revoke(grantID: code.grantID)
            throw invalidCode
        }
        let grant = grant(
            .password, id: code.grantID, userID: code.userID, client: client, scope: code.scope,
            authTime: code.authTime, keyThumbprint: proof?.thumbprint)
        let tokens = firstTokens(of: grant, client)
        let opened =
            code.isReauthentication
            ? try await services.grants.reauthenticate(
                with: code, tokens: tokens, keyProof: proof)
            : try await services.grants.insert(
                grant, provenBy: .password, tokens: tokens, keyProof: proof, from: code)
        guard let session = opened else { throw invalidCode }
        return try response(tokens, of: session, nonce: code.nonce)
    }

    /// The refresh token grant (RFC 6749 section 6) with rotation.
    func refresh(
        _ request: Request, _ form: FormFields, client: ClientConfiguration
    ) async throws -> Response {
        let proof = try services.proof(of: request)
        let invalidToken = OAuthError.invalidGrant("invalid refresh token")
        guard let text = form["refresh_token"] else {
            throw OAuthError.invalidRequest("refresh token is required")
        }
        guard let refreshToken = RefreshToken(text),
            let session = try await services.grants.session(refreshToken, provenBy: proof)
        else { throw invalidToken }
        guard session.grant.clientID == client.id else {
            throw OAuthError.invalidGrant("client id doesn't match the refresh token")
        }
        let tokens = NewTokens(
            expiresIn: client.accessTokenLifetime,
            keyThumbprint: client.dpop.accessTokenKey(session.grant.keyThumbprint),
            refresh: refreshToken.successor)
        guard
            try await services.grants.refresh(
                session, replacing: refreshToken, with: tokens)
        else { throw invalidToken }
        return try response(tokens, of: session)
    }

    /// Issues a new ID token for a valid session.
    func idToken(_ request: Request, client: ClientConfiguration) async throws -> Response {
        guard
            let session = try await services.session(of: request),
            session.grant.clientID == client.id,
            session.grant.hasUser
        else { throw OAuthError(status: 401, "invalid_grant", "valid session is required") }
        return try .json(["id_token": try idToken(of: session, nonce: nil)])
    }
}

extension IdentityServices {
    /// The claims of an ID token that this server issued, expired or not.
    func verifiedHint(_ idToken: String) -> IDToken? {
        signer.verify(idToken).flatMap { $0.issuer == origin.current ? $0 : nil }
    }
}
