import Hummingbird
import LatchkeyRelyingParty

/// Ends the browser's session: GET and POST `/oauth2/end_session` (OpenID Connect RP-Initiated Logout 1.0).
///
/// A client that shows the user's ID token is believed; otherwise the user is asked. The browser is only sent on to an
/// address that is registered for the client.
struct EndSessionEndpoint: Sendable {
    private static let purpose = "end session"

    let services: IdentityServices

    func show(_ request: Request, _ context: IdentityContext) async throws -> Response {
        let cookies = services.cookies(of: request)
        let query = request.uri.query ?? ""
        guard let fields = FormFields(query), let target = await target(fields) else {
            return services.pages.message(
                title: "This logout can't go on",
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
                title: "Not done", text: "Go back to the app and log out there again.", status: .forbidden)
        }
        return try await end(cookies, target, state: fields["state"])
    }

    private struct Target {
        let uri: RedirectURI?
    }

    /// Where to go afterwards; nil when the client asks for what it may not have.
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
