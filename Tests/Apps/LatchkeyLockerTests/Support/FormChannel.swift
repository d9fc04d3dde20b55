import Foundation
import HTTPTypes
import Latchkey
import LatchkeyLocker
import LatchkeyOAuth
import LatchkeyTestSupport
import Testing

/// A custom channel: it fills in the server's login form, and returns the code and its verifier.
actor FormChannel: StrongAuthenticationChannel {
    /// The user's next action.
    enum Manner: Sendable {
        case logIn
        /// Leaves the page open until it is withdrawn.
        case hesitate
        case decline
    }

    private let user: IdentityProcess.User
    private var manners: [Manner] = []
    private(set) var requests: [StrongAuthenticationRequest] = []

    init(_ user: IdentityProcess.User) {
        self.user = user
    }

    /// The user's actions at the next logins. After these the user logs in.
    func next(_ manners: Manner...) { self.manners = manners }

    func authorize(_ request: StrongAuthenticationRequest) async throws -> AuthorizationCode {
        requests.append(request)
        switch manners.isEmpty ? .logIn : manners.removeFirst() {
        case .logIn: break
        case .hesitate: try await Task.sleep(for: .seconds(3600))
        case .decline: throw CancellationError()
        }
        let redirectURI = "http://127.0.0.1:9/callback"
        let login = AuthorizationRequest(
            clientID: request.clientID, scope: request.scope,
            options: AuthorizationOptions(prompt: [.login]),
            issuer: request.issuer, requiresIssuer: request.requiresIssuer, hint: nil,
            keyThumbprint: request.keyThumbprint, nonce: request.nonce)
        let endpoint = try #require(Endpoint(request.authorizationEndpoint))
        let browser = FormBrowser(user, transport: CurlTransport(), endingAt: redirectURI)
        try await browser.load(login.url(at: endpoint, redirectURI: redirectURI))
        try await browser.logIn()
        let page = await browser.page
        let query = try #require(await browser.answer, "the login led nowhere: \(page)")
        guard case .success(let code)? = login.answer(query) else { throw CancellationError() }
        return AuthorizationCode(
            code: code, codeVerifier: login.pkce.codeVerifier, redirectURI: redirectURI)
    }
}
