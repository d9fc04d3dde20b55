import FoundationEssentials
import Hummingbird
import Latchkey
import LatchkeyRelyingParty
import Logging

/// What a client does with a session that it has: user info, revocation, and removal of a biometric identity.
struct SessionEndpoints: Sendable {
    let services: IdentityServices

    /// The claims that every Authgear SDK needs to read a user, and the name.
    struct UserInfo: Encodable {
        let sub: String
        let preferred_username: String
        let custom_attributes: [String: String] = [:]
        let isAnonymous: Bool
        let isVerified = false
        let canReauthenticate: Bool
        let updated_at: Int

        enum CodingKeys: String, CodingKey {
            case sub, preferred_username, custom_attributes, updated_at
            case isAnonymous = "https://authgear.com/claims/user/is_anonymous"
            case isVerified = "https://authgear.com/claims/user/is_verified"
            case canReauthenticate = "https://authgear.com/claims/user/can_reauthenticate"
        }
    }

    /// GET or POST `/oauth2/userinfo` (OpenID Connect Core section 5.3).
    func userInfo(_ request: Request, _ context: IdentityContext) async throws -> Response {
        guard let session = try await services.session(bearer: request.bearerToken) else {
            throw OAuthError(status: 401, "invalid_grant", "invalid session")
        }
        guard session.grant.scopes.contains(Scope.openID) else { throw OAuthError.insufficientScope(Scope.openID) }
        let user = session.user
        return try .json(
            UserInfo(
                sub: user.id, preferred_username: user.username, isAnonymous: user.isAnonymous,
                canReauthenticate: !user.isAnonymous, updated_at: Int(user.createdAt)))
    }

    /// POST `/oauth2/revoke` (RFC 7009). A token that is unknown is as good as revoked.
    func revoke(_ request: Request, _ context: IdentityContext) async throws -> Response {
        var request = request
        if let token = try await request.form(context)["token"] {
            try await services.grants.revoke(token: token)
        }
        return .empty
    }

    /// POST `/api/identity/biometric/remove` of seed 000: `{"kid": …}`, answered with 200 and an empty body.
    ///
    /// Another user's identity is as little found as one that does not exist.
    func removeBiometric(_ request: Request, _ context: IdentityContext) async throws -> Response {
        var request = request
        guard
            let session = try await services.session(bearer: request.bearerToken), session.grant.hasFullAccess
        else {
            var response = try APIError.unauthorized.response()
            response.headers[.wwwAuthenticate] =
                "Bearer error=\"invalid_grant\", error_description=\"invalid session\""
            return response
        }
        let body = try await request.jsonObject(context)
        guard body.count == 1, let text = body["kid"]?.string else {
            throw APIError.validationFailed(
                .object(["location": .string("/kid"), "kind": .string("required")]))
        }
        guard
            let kid = KeyID(rawValue: text),
            let device = try await services.devices.remove(kid: kid, of: session.user.id)
        else { throw APIError.identityNotFound }
        context.logger.notice("biometric identity removed", metadata: ["identity": "\(device.id)"])
        return .empty
    }
}
