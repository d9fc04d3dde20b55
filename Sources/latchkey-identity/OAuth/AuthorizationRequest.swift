import FoundationEssentials
import LatchkeyRelyingParty

/// A request for an authorization code (RFC 6749 section 4.1.1, RFC 7636, OpenID Connect Core section 3.1.2.1).
struct AuthorizationRequest: Sendable {
    enum Prompt: String {
        case none, login, consent
        case selectAccount = "select_account"
    }

    let client: ClientConfiguration
    let redirectURI: RedirectURI
    let state: String?
    let scopes: [String]
    let codeChallenge: String
    let nonce: String?
    let prompts: Set<Prompt>
    /// Seconds since the login that are still acceptable.
    let maxAge: Int?
    /// The only user who may log in.
    let pinnedUserID: String?
    /// What the form is filled in with.
    let usernameHint: String?
    /// Whether the login is to leave no session in the browser, nor use one.
    let suppressesSession: Bool
    /// Whether the user followed the page's link to cancel: `x_cancel=1`.
    let isCancelled: Bool

    /// Why there will be no code.
    enum Failure: Error {
        /// The client or the redirect URI is not to be trusted: the browser stays here.
        case page(String)
        case redirect(RedirectURI, state: String?, OAuthError)
    }

    init(_ fields: FormFields, services: IdentityServices) async throws(Failure) {
        guard let client = fields["client_id"].flatMap(services.configuration.client) else {
            throw .page("The app that sent you here is not known to this server.")
        }
        guard let uri = fields["redirect_uri"].flatMap(RedirectURI.init), client.accepts(redirectURI: uri) else {
            throw .page("The app that sent you here wants you to return to an address that is not registered for it.")
        }
        self.client = client
        redirectURI = uri
        state = fields["state"]
        do {
            if let name = fields.repeatedField { throw OAuthError.invalidRequest("\(name) is there more than once") }
            guard client.kind.isFirstPartyPublic else {
                throw OAuthError.unauthorizedClient("response type is not allowed for this client")
            }
            guard fields["response_type"] == "code" else {
                throw OAuthError("unsupported_response_type", "only 'code' response type is supported")
            }
            guard fields["response_mode"] ?? "query" == "query" else {
                throw OAuthError.invalidRequest("only 'query' response mode is supported")
            }
            scopes = fields.words("scope")
            try Scope.validate(scopes)
            guard let challenge = fields["code_challenge"] else {
                throw OAuthError.invalidRequest("PKCE code challenge is required")
            }
            guard fields["code_challenge_method"] == "S256", ProofKey.isChallenge(challenge) else {
                throw OAuthError.invalidRequest("only 'S256' PKCE transform is supported")
            }
            codeChallenge = challenge
            nonce = fields["nonce"]
            prompts = try Self.prompts(fields.words("prompt"))
            maxAge = try Self.maxAge(fields["max_age"])
            let hint = try fields["login_hint"].map { text throws(OAuthError) in
                try LoginHint(text, allowingUserID: services.configuration.extensions.biometricLoginHint)
            }
            pinnedUserID = try await Self.pinnedUser(hint, idTokenHint: fields["id_token_hint"], services: services)
            usernameHint = if case .username(let name) = hint { name } else { nil }
            suppressesSession = fields["x_suppress_idp_session_cookie"] == "true"
            isCancelled = fields["x_cancel"] == "1"
        } catch let error as OAuthError {
            throw .redirect(uri, state: fields["state"], error)
        } catch {
            throw .redirect(uri, state: fields["state"], .serverError)
        }
    }

    /// Whether somebody who logged in earlier may go on without doing it again.
    ///
    /// Not where anybody may wait at the redirect URI: then a link to this page, opened in the user's browser, would be enough
    /// to be the user (RFC 8252 section 8.6).
    func isSatisfied(by session: WebSessionStore.Session, now: Double) -> Bool {
        guard redirectURI.isOfOneSite else { return false }
        if prompts.contains(.login) || prompts.contains(.selectAccount) { return false }
        // Zero asks for a login as `prompt=login` does, however fast the browser was (OpenID Connect Core 3.1.2.1).
        if let maxAge, maxAge == 0 || now - session.authTime > Double(maxAge) { return false }
        return pinnedUserID == nil || pinnedUserID == session.user.id
    }

    private static func prompts(_ words: [String]) throws(OAuthError) -> Set<Prompt> {
        let prompts = words.compactMap(Prompt.init)
        guard prompts.count == words.count, !prompts.contains(.none) || prompts.count == 1 else {
            throw .invalidRequest("invalid prompt")
        }
        return Set(prompts)
    }

    private static func maxAge(_ text: String?) throws(OAuthError) -> Int? {
        guard let text else { return nil }
        guard let seconds = Int(text), seconds >= 0 else { throw .invalidRequest("invalid max_age") }
        return seconds
    }

    private static func pinnedUser(
        _ hint: LoginHint?, idTokenHint: String?, services: IdentityServices
    ) async throws -> String? {
        var pinned: String?
        if case .userID(let id) = hint { pinned = id }
        guard let idTokenHint else { return pinned }
        guard
            let token = await services.signer.verify(idTokenHint), token.issuer == services.origin.current,
            pinned == nil || pinned == token.subject
        else { throw OAuthError.invalidRequest("invalid id_token_hint") }
        return token.subject
    }
}
