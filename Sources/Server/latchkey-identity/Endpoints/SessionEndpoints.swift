import FoundationEssentials
import Hummingbird
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import Logging

/// Endpoints for a client with a session: user info, revocation, and removal of a biometric
/// identity.
struct SessionEndpoints: Sendable {
    let services: IdentityServices

    /// GET or POST `/oauth2/userinfo` (OpenID Connect Core section 5.3): the claims that all
    /// Authgear SDKs require, and the user name.
    func userInfo(_ request: Request, _ context: IdentityContext) async throws -> Response {
        guard let session = try await services.session(of: request, acceptsBearer: true) else {
            throw OAuthError(status: 401, "invalid_grant", "invalid session")
        }
        guard session.grant.scopes.contains(Scope.openID) else {
            throw OAuthError.insufficientScope(Scope.openID)
        }
        let user = session.user
        let claims: [String: JSONValue] = [
            "sub": .string(user.id), "preferred_username": .string(user.username),
            "custom_attributes": [:],
            "updated_at": .number(user.createdAt.rounded(.towardZero)),
            "https://authgear.com/claims/user/is_anonymous": false,
            "https://authgear.com/claims/user/is_verified": false,
            "https://authgear.com/claims/user/can_reauthenticate": true,
        ]
        return try .json(claims)
    }

    /// POST `/oauth2/revoke` (RFC 7009). Also succeeds for an unknown token.
    ///
    /// The field `client_id` may be missing, as Authgear's apps send none. A bound token needs no
    /// proof: who finds one must be able to end its session.
    func revoke(_ request: Request, _ context: IdentityContext) async throws -> Response {
        let form = try await request.form()
        guard let token = form["token"] else {
            throw OAuthError.invalidRequest("token is required")
        }
        let client = form.contains("client_id") ? try services.client(form) : nil
        guard try await services.grants.revoke(token: token, of: client?.id) else {
            throw OAuthError.invalidGrant("the token was issued to another client")
        }
        return .empty()
    }

    /// POST `/api/identity/biometric/remove`, body `{"kid": …}`: answers 200 with an empty body.
    ///
    /// An app gives up its own key, whose name only the app knows: the sessions of this key end,
    /// and its user stays logged in. ``DeviceRevocation`` is for a device that may be lost.
    ///
    /// Answers `IdentityNotFound` for another user's identity, as for one that does not exist.
    func removeBiometric(_ request: Request, _ context: IdentityContext) async throws -> Response {
        guard
            let session = try await services.session(of: request),
            session.grant.managesDevices
        else { throw APIError.unauthorized }
        struct Body: Decodable { let kid: String }
        let body = try await request.body(Body.self)
        guard
            let kid = KeyID(rawValue: body.kid),
            let device = try await services.devices.remove(kid: kid, of: session.user.id)
        else { throw APIError.identityNotFound }
        context.logger.notice("biometric identity removed", metadata: ["identity": "\(device.id)"])
        return .empty()
    }
}
