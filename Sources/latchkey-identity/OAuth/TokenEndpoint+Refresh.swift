import Hummingbird
import LatchkeyRelyingParty

extension TokenEndpoint {
    /// RFC 6749 section 6, with rotation: a refresh token that was replaced takes its grant down with it when it comes
    /// again (RFC 9700 section 4.14.2).
    func refresh(_ form: FormFields, client: ClientConfiguration) async throws -> Response {
        let invalidToken = OAuthError.invalidGrant("invalid refresh token")
        let deviceInfo = try deviceInfo(form)
        guard let refreshToken = form["refresh_token"] else {
            throw OAuthError.invalidRequest("refresh token is required")
        }
        let grant: Grant
        let user: User
        switch try await services.grants.refreshable(refreshToken) {
        case .grant(let found, let owner): (grant, user) = (found, owner)
        case .reused(let grantID):
            try await services.grants.revoke(grantID: grantID)
            throw invalidToken
        case .unknown: throw invalidToken
        }
        guard grant.clientID == client.id else {
            throw OAuthError.invalidRequest("client id doesn't match the refresh token")
        }
        let tokens = try await tokens(
            for: grant, user: user, client: client, withRefreshToken: client.rotatesRefreshTokens)
        guard
            try await services.grants.refresh(
                grant, replacing: refreshToken, with: tokens, deviceInfo: deviceInfo,
                idleTimeout: client.refreshTokenIdleTimeout)
        else { throw invalidToken }
        return try .json(tokens)
    }

    /// A new ID token for a session that is alive.
    func idToken(client: ClientConfiguration, bearer: String?) async throws -> Response {
        guard
            let session = try await services.session(bearer: bearer), session.grant.clientID == client.id,
            session.grant.hasUser
        else { throw OAuthError(status: 401, "invalid_grant", "valid session is required") }
        return try .json(["id_token": try await idToken(of: session.grant, user: session.user, nonce: nil)])
    }
}

extension IdentityServices {
    /// The session of an access token, if there is one and it is good.
    func session(bearer: String?) async throws -> GrantStore.Session? {
        guard let bearer else { return nil }
        return try await grants.session(accessToken: bearer)
    }
}
