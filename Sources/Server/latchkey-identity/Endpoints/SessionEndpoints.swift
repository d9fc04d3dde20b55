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
            "https://authgear.com/claims/user/is_anonymous": .bool(user.isAnonymous),
            "https://authgear.com/claims/user/is_verified": false,
            "https://authgear.com/claims/user/can_reauthenticate": .bool(!user.isAnonymous),
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
        let client = form.contains("client_id") ? try request.client(form, services) : nil
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
        let body = try await request.jsonObject()
        guard body.count == 1, let text = body["kid"]?.string else {
            throw APIError.validationFailed(["location": "/kid", "kind": "required"])
        }
        guard
            let kid = KeyID(rawValue: text),
            let device = try await services.devices.remove(kid: kid, of: session.user.id)
        else { throw APIError.identityNotFound }
        context.logger.notice("biometric identity removed", metadata: ["identity": "\(device.id)"])
        return .empty()
    }
}

/// Ends the browser's session: GET and POST `/oauth2/end_session` (OpenID Connect RP-Initiated
/// Logout 1.0).
///
/// With the user's ID token as a hint, the session ends at once; otherwise the user has to confirm.
/// The browser is redirected only to an address that is registered for the client.
struct EndSessionEndpoint: Sendable {
    private static let refusalTitle = "Could not log out"

    let services: IdentityServices

    func show(_ request: Request, _ context: IdentityContext) async throws -> Response {
        let cookies = services.cookies(of: request)
        guard let fields = request.queryFields else {
            return refusal("The app that sent you here made an invalid request.", .badRequest)
        }
        let target = try target(fields)
        guard let session = try await services.session(cookies) else {
            return response(target, fields)
        }
        if let hint = fields["id_token_hint"],
            services.verifiedHint(hint)?.subject == session.user.id
        {
            return try await services.logOut(cookies, response(target, fields))
        }
        return services.show(
            .confirm(
                title: "Log out?", text: "You are logged in as \(session.user.username).",
                action: "/oauth2/end_session?" + (request.uri.query ?? ""), button: "Log out",
                token: services.forms.token(cookies, for: .endSession)),
            to: cookies, mayLeadTo: target)
    }

    func submit(_ request: Request, _ context: IdentityContext) async throws -> Response {
        let form = try await request.fields()
        // An app's request by POST (section 2) continues by GET, with this server's cookies.
        guard form.isOfPage else { return .seeOther("/oauth2/end_session?" + form.query) }
        let cookies = services.cookies(of: request)
        guard services.forms.accepts(form, cookies, for: .endSession),
            let fields = request.queryFields
        else { return refusal("Go back to the app and log out there again.", .forbidden) }
        return try await services.logOut(cookies, response(target(fields), fields))
    }

    /// The address after the logout; nil for this server's page.
    ///
    /// - Throws: ``UnregisteredValue``
    private func target(_ fields: FormFields) throws -> RedirectURI? {
        guard let text = fields["post_logout_redirect_uri"] else { return nil }
        let hinted = fields["id_token_hint"].flatMap(services.verifiedHint)?.audience.first
        let named = fields["client_id"]
        let client = (named ?? hinted).flatMap(services.configuration.client)
        guard
            hinted == nil || named == nil || hinted == named,
            let uri = RedirectURI(text),
            uri.isRegistered(in: client?.postLogoutRedirectURIs ?? [])
        else {
            throw UnregisteredValue(
                title: Self.refusalTitle, parameter: "post_logout_redirect_uri", value: text,
                registered: client?.postLogoutRedirectURIs ?? [], clientID: named ?? hinted)
        }
        return uri
    }

    private func response(_ uri: RedirectURI?, _ fields: FormFields) -> Response {
        guard let uri else { return Page.loggedOut.response() }
        return .seeOther(uri.adding(fields["state"].map { [("state", $0)] } ?? []))
    }

    private func refusal(_ text: String, _ status: HTTPResponse.Status) -> Response {
        Page.message(title: Self.refusalTitle, text: text).response(status: status)
    }
}
