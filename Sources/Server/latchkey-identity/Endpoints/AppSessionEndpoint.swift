import FoundationEssentials
import Hummingbird
import Latchkey
import LatchkeyJOSE

/// Opens this server's own pages for the user of an app, in the protocol of deployed Authgear
/// servers.
///
/// The app exchanges its refresh token for a token that works once. It opens the authorization
/// endpoint in a browser with `response_type=none` and that token as the `login_hint`. The browser
/// then has a session for the settings pages, which ends with the app's session. It cannot log in
/// to other apps or revoke enrolments.
struct AppSessionEndpoint: Sendable {
    /// The `response_type` of a request without an answer to the app.
    static let type = "none"
    private static let hint = "https://authgear.com/login_hint?"

    let services: IdentityServices

    /// POST `/oauth2/app_session_token`, body `{"refresh_token": …}`.
    func issue(_ request: Request, _ context: IdentityContext) async throws -> Response {
        struct Body: Decodable { let refresh_token: String }
        let body = try await request.body(Body.self)
        guard let refreshToken = RefreshToken(body.refresh_token),
            let session = try await services.grants.session(
                refreshToken, provenBy: services.proof(of: request)),
            // The page removes devices.
            session.grant.managesDevices
        else { throw APIError.invalidGrant }
        let (token, expiresAt) = try await services.appSessions.issue(for: session.grant)
        return try .json([
            "result": ["app_session_token": token, "expire_at": expiresAt.formatted(.iso8601)]
        ])
    }

    /// Starts the browser's session and redirects to the page in `redirect_uri`.
    func enter(_ request: Request, _ fields: FormFields) async throws -> Response {
        // Otherwise another site could log the browser in as another user. Browsers send `none` for
        // a page that the user or a program opened, also after redirects.
        guard ["none", nil].contains(request.headers[named: "Sec-Fetch-Site"]),
            fields.repeatedField == nil, let page = try page(fields["redirect_uri"]),
            let client = fields["client_id"].flatMap(services.configuration.client),
            let hint = fields["login_hint"], hint.hasPrefix(Self.hint),
            let members = FormFields(hint.dropFirst(Self.hint.count)),
            members["type"] == "app_session_token", let token = members["app_session_token"],
            let grantID = try await services.appSessions.redeem(token),
            let session = try await services.grants.session(grantID: grantID),
            session.grant.clientID == client.id
        else {
            return Page.message(
                title: "Could not open the page",
                text: "The link was used already, or is too old. Open the page in the app again."
            ).response(status: .badRequest)
        }
        var response = Response.seeOther(page)
        let cookie = try await services.sessions.start(
            for: session.user, replacing: services.cookies(of: request).session, of: session.grant)
        response.setCookie(services.cookie(.session, cookie))
        return response
    }

    /// The path of a settings page of this server; nil for another address.
    private func page(_ address: String?) throws -> String? {
        let origin = try services.issuer
        return ["/settings", "/settings/biometric", "/settings/locker"].first {
            address?.prefix { $0 != "?" } == Substring(origin + $0)
        }
    }
}
