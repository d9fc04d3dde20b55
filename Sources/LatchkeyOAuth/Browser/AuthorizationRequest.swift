internal import FoundationEssentials
package import Latchkey

/// One login in the browser: what is asked, and what an answer to exactly that looks like.
package struct AuthorizationRequest: Sendable {
    package let clientID: String
    /// Scopes, separated by spaces.
    package let scope: String
    package let options: AuthorizationOptions
    /// The server that is asked: its answer must not come from another one.
    package let server: IssuerMetadata
    package let hint: UserHint?
    package let pkce = PKCE.random()
    package let state = RandomText.make()
    package let nonce: String

    package init(
        clientID: String, scope: String, options: AuthorizationOptions, server: IssuerMetadata, hint: UserHint?,
        nonce: String = RandomText.make()
    ) {
        self.clientID = clientID
        self.scope = scope
        self.options = options
        self.server = server
        self.hint = hint
        self.nonce = nonce
    }

    /// How the request names the one user who may log in.
    package enum UserHint: Hashable, Sendable {
        /// The user's id, for a server that says it takes one.
        case userID(String)
        /// An ID token of the user, current or expired.
        case idToken(String)
    }

    /// The page to show.
    package func url(at endpoint: Endpoint, redirectURI: String) -> String {
        var fields = [
            ("response_type", "code"), ("client_id", clientID), ("redirect_uri", redirectURI),
            ("scope", scope), ("code_challenge_method", "S256"), ("code_challenge", pkce.challenge),
            ("state", state), ("nonce", nonce),
        ]
        if !options.prompt.isEmpty {
            fields.append(("prompt", options.prompt.map(\.rawValue).joined(separator: " ")))
        }
        switch hint {
        case .userID(let id):
            let query = FormEncoding.encode([("type", "user_id"), ("user_id", id)])
            fields.append(("login_hint", "https://authgear.com/login_hint?\(query)"))
        case .idToken(let token): fields.append(("id_token_hint", token))
        case nil: break
        }
        if !options.uiLocales.isEmpty { fields.append(("ui_locales", options.uiLocales.joined(separator: " "))) }
        // No cookie of the browser shall log in the next person.
        fields.append(("x_suppress_idp_session_cookie", "true"))
        fields.append(("x_sso_enabled", "false"))
        return endpoint.text + (endpoint.path.contains("?") ? "&" : "?") + FormEncoding.encode(fields)
    }

    /// What came back, if it is an answer to this request.
    ///
    /// - Returns: nil when the query is no answer or has another `state`: anybody can send such a thing to a loopback
    ///   port, and it must not end the login.
    package func answer(_ query: String) -> AuthorizationAnswer? {
        guard
            let fields = FormEncoding.decode(query), let returned = fields["state"],
            constantTimeEqual(Array(returned.utf8), Array(state.utf8))
        else { return nil }
        guard isIssuer(fields["iss"]) else { return .otherIssuer(fields["iss"]) }
        if let error = fields["error"] {
            return .refused(
                OAuth2Error(error: error, description: fields["error_description"], uri: fields["error_uri"]))
        }
        guard let code = fields["code"], !code.isEmpty else {
            return .refused(OAuth2Error(error: "invalid_request", description: "Missing parameter: code"))
        }
        return .code(code)
    }

    /// RFC 9207 section 2.4: compared character by character.
    private func isIssuer(_ named: String?) -> Bool {
        named.map { $0.utf8.elementsEqual(server.issuer.utf8) } ?? !server.sendsIssuer
    }
}
