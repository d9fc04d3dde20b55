import FoundationEssentials
import Hummingbird
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import Logging

/// Endpoints for a client with a session: user info, revocation, and removal of a biometric identity.
struct SessionEndpoints: Sendable {
    let services: IdentityServices

    /// The claims that all Authgear SDKs require, and the user name.
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

    /// POST `/oauth2/revoke` (RFC 7009). Also succeeds for an unknown token.
    func revoke(_ request: Request, _ context: IdentityContext) async throws -> Response {
        var request = request
        if let token = try await request.form(context)["token"] {
            try await services.grants.revoke(token: token)
        }
        return .empty
    }

    /// POST `/api/identity/biometric/remove`, body `{"kid": …}`: answers 200 with an empty body.
    ///
    /// Answers `IdentityNotFound` for another user's identity, as for one that does not exist.
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

/// Ends the browser's session: GET and POST `/oauth2/end_session` (OpenID Connect RP-Initiated Logout 1.0).
///
/// With the user's ID token as a hint, the session ends at once; otherwise the user has to confirm. The browser is
/// redirected only to an address that is registered for the client.
struct EndSessionEndpoint: Sendable {
    private static let purpose = "end session"

    let services: IdentityServices

    func show(_ request: Request, _ context: IdentityContext) async throws -> Response {
        let cookies = services.cookies(of: request)
        let query = request.uri.query ?? ""
        guard let fields = FormFields(query), let target = await target(fields) else {
            return services.pages.message(
                title: "Could not log out",
                text: "The app that sent you here made a request that is not allowed.",
                status: .badRequest)
        }
        guard let session = try await services.session(cookies) else { return leave(target, state: fields["state"]) }
        if let hint = fields["id_token_hint"], await services.signer.verify(hint)?.subject == session.user.id {
            return try await end(cookies, target, state: fields["state"])
        }
        let cookie = cookies.form ?? services.forms.newCookie()
        var response = services.pages.render(
            ConfirmPage(
                title: "Log out?", text: "You are logged in as \(session.user.username).",
                action: "/oauth2/end_session?" + query, button: "Log out",
                token: services.forms.token(cookie: cookie, session: cookies.session, purpose: Self.purpose)),
            mayLeadTo: target.uri)
        if cookies.form == nil { response.setCookie(services.cookie(.form, cookie)) }
        return response
    }

    func submit(_ request: Request, _ context: IdentityContext) async throws -> Response {
        var request = request
        let form = try await request.form(context)
        let cookies = services.cookies(of: request)
        guard
            services.forms.accepts(
                form[FormGuard.fieldName], cookie: cookies.form, session: cookies.session, purpose: Self.purpose),
            let fields = FormFields(request.uri.query ?? ""), let target = await target(fields)
        else {
            return services.pages.message(
                title: "Could not log out", text: "Go back to the app and log out there again.", status: .forbidden)
        }
        return try await end(cookies, target, state: fields["state"])
    }

    private struct Target {
        let uri: RedirectURI?
    }

    /// The redirect target after the logout; nil if the requested one is not registered for the client.
    private func target(_ fields: FormFields) async -> Target? {
        guard let text = fields["post_logout_redirect_uri"] else { return Target(uri: nil) }
        var audience: String?
        if let hint = fields["id_token_hint"] { audience = await services.signer.verify(hint)?.audience.first }
        guard
            let uri = RedirectURI(text),
            let client = (fields["client_id"] ?? audience).flatMap(services.configuration.client),
            client.accepts(postLogoutRedirectURI: uri)
        else { return nil }
        return Target(uri: uri)
    }

    private func end(_ cookies: BrowserCookies, _ target: Target, state: String?) async throws -> Response {
        if let session = cookies.session { try await services.sessions.end(session) }
        var response = leave(target, state: state)
        response.setCookie(services.cookie(.session, "", maxAge: 0))
        return response
    }

    private func leave(_ target: Target, state: String?) -> Response {
        guard let uri = target.uri else {
            return services.pages.message(title: "Logged out", text: "You are logged out of this browser.")
        }
        return .seeOther(uri.adding(state.map { [("state", $0)] } ?? []))
    }
}
