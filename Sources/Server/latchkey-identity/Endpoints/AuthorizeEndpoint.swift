import FoundationEssentials
import Hummingbird
import LatchkeyRelyingParty

/// The authorization endpoint: GET `/oauth2/authorize`, and POST of its login form.
///
/// The form posts to the URL of the request. The server checks that URL again when the form
/// arrives, and stores nothing in between.
struct AuthorizeEndpoint: Sendable {
    /// The title of the page for a request that cannot be answered with a redirect.
    static let refusalTitle = "Could not log in"

    let services: IdentityServices
    let login: LoginForm

    func show(_ request: Request, _ context: IdentityContext) async throws -> Response {
        if let fields = request.queryFields, fields["response_type"] == AppSessionEndpoint.type {
            return try await AppSessionEndpoint(services: services).enter(request, fields)
        }
        return try await answering(request) { authorization, cookies in
            // Cancelling changes no state, so it needs no form token.
            if authorization.isCancelled {
                throw authorization.failure("cancel", "the user cancelled")
            }
            if authorization.isSilent {
                throw authorization.failure("login_required", "the user has to log in")
            }
            return page(authorization, request, cookies)
        }
    }

    func submit(_ request: Request, _ context: IdentityContext) async throws -> Response {
        let form = try await request.form()
        return try await answering(request) { authorization, cookies in
            guard services.forms.accepts(form, cookies, for: .authorize) else {
                return page(authorization, request, cookies, problem: .expired)
            }
            switch try await login.check(
                form, context: context, pinnedUserID: authorization.pinnedUserID)
            {
            case .failure(let problem):
                return page(
                    authorization, request, cookies, username: form["username"], problem: problem)
            case .success(let user):
                return try await redirect(authorization, user: user)
            }
        }
    }

    private func answering(
        _ request: Request, _ body: (AuthorizationRequest, BrowserCookies) async throws -> Response
    ) async throws -> Response {
        guard let fields = request.queryFields else {
            return Page.message(
                title: Self.refusalTitle,
                text: "The app that sent you here made an invalid request."
            ).response(status: .badRequest)
        }
        do {
            return try await body(
                AuthorizationRequest(fields, services: services), services.cookies(of: request))
        } catch let failure as AuthorizationRequest.Failure {
            let error = failure.error
            return try .seeOther(
                failure.redirectURI.adding(
                    [("error", error.error), ("error_description", error.description)]
                        + identification(state: failure.state)))
        }
    }

    /// Issues a code to the client for the user who logged in now.
    private func redirect(_ authorization: AuthorizationRequest, user: User) async throws
        -> Response
    {
        let continued = try await services.grants.continued(by: authorization, of: user)
        let code = OpaqueToken.alphanumeric()
        let now = services.clock.timestamp
        try await services.grants.insert(
            AuthorizationCode(
                digest: OpaqueToken.digest(code),
                grantID: continued ?? UUID().uuidString.lowercased(),
                clientID: authorization.client.id, userID: user.id,
                redirectURI: authorization.redirectURI.string,
                codeChallenge: authorization.codeChallenge,
                scope: authorization.scopes.joined(separator: " "),
                nonce: authorization.nonce, keyThumbprint: authorization.keyThumbprint,
                authTime: now,
                expiresAt: now + AuthorizationCode.lifetime,
                isUsed: false, isReauthentication: continued != nil))
        return try .seeOther(
            authorization.redirectURI.adding(
                [("code", code)] + identification(state: authorization.state)))
    }

    /// The parameters that identify the server and the request: `iss` (RFC 9207) and `state`.
    private func identification(state: String?) throws -> [(name: String, value: String)] {
        try [("iss", services.issuer)] + (state.map { [("state", $0)] } ?? [])
    }

    private func page(
        _ authorization: AuthorizationRequest, _ request: Request, _ cookies: BrowserCookies,
        username: String? = nil,
        problem: LoginForm.Problem? = nil
    ) -> Response {
        login.page(
            action: "/oauth2/authorize?" + (request.uri.query ?? ""), purpose: .authorize,
            cookies: cookies,
            clientName: authorization.client.name ?? authorization.client.id,
            username: username ?? authorization.usernameHint,
            isPinned: authorization.pinnedUserID != nil,
            mayLeadTo: authorization.redirectURI, problem: problem)
    }
}
