internal import Crypto
internal import FoundationEssentials
internal import Latchkey

/// An OAuth 2.0 authorization request with PKCE, `state` and `nonce` (RFC 6749 section 4.1.1, RFC
/// 7636 section 4.3).
package struct AuthorizationRequest: Sendable {
    package let clientID: String
    /// Scopes, separated by spaces.
    package let scope: String
    package let options: AuthorizationOptions
    /// The issuer that the authorization response must come from.
    package let issuer: String
    /// Whether the response must name the issuer (RFC 9207).
    package let requiresIssuer: Bool
    package let hint: UserHint?
    /// The maximum time since the user was authenticated, in seconds; nil for any.
    package let maxAge: Int?
    /// The thumbprint of the key that must redeem the code (RFC 9449 section 10); nil for none.
    package let keyThumbprint: String?
    package let pkce = PKCE()
    package let state = RandomText.make()
    package let nonce: String

    package init(
        clientID: String, scope: String, options: AuthorizationOptions, issuer: String,
        requiresIssuer: Bool,
        hint: UserHint?, maxAge: Int? = nil, keyThumbprint: String? = nil,
        nonce: String = RandomText.make()
    ) {
        self.clientID = clientID
        self.scope = scope
        self.options = options
        self.issuer = issuer
        self.requiresIssuer = requiresIssuer
        self.hint = hint
        self.maxAge = maxAge
        self.keyThumbprint = keyThumbprint
        self.nonce = nonce
    }

    /// How the request names the only user who may log in.
    package enum UserHint: Hashable, Sendable {
        /// The user's id, for a server that announces `biometric_login_hint_supported`.
        case userID(String)
        /// An ID token of the user, current or expired.
        case idToken(String)
    }

    /// The URL of the login page.
    package func url(at endpoint: Endpoint, redirectURI: String) -> String {
        var fields = [
            ("response_type", "code"), ("client_id", clientID), ("redirect_uri", redirectURI),
            ("scope", scope), ("code_challenge_method", "S256"),
            ("code_challenge", pkce.codeChallenge),
            ("state", state), ("nonce", nonce),
        ]
        if !options.prompt.isEmpty {
            fields.append(("prompt", options.prompt.map(\.rawValue).joined(separator: " ")))
        }
        var loginHint = options.loginHint
        switch hint {
        case .userID(let id): loginHint = .user(id: id)
        case .idToken(let token): fields.append(("id_token_hint", token))
        case nil: break
        }
        if let loginHint { fields.append(("login_hint", loginHint.text)) }
        if let maxAge { fields.append(("max_age", String(maxAge))) }
        if let keyThumbprint { fields.append(("dpop_jkt", keyThumbprint)) }
        if let page = options.page { fields.append(("x_page", page.rawValue)) }
        fields += PageSettings(options.uiLocales, options.colorScheme).fields
        // A session cookie in the browser must not log in the next user.
        fields.append(("x_suppress_idp_session_cookie", "true"))
        fields.append(("x_sso_enabled", "false"))
        return endpoint.text + (endpoint.hasQuery ? "&" : "?") + FormEncoding.encode(fields)
    }

    /// Parses the query of a redirect. A field that cannot be decoded is skipped: servers add fields
    /// of their own.
    ///
    /// - Returns: nil when the query is not a response to this request, or has another `state`.
    ///   Every local program can send such a query to a loopback port, so it must not end the
    ///   login.
    package func answer(_ query: String) -> AuthorizationAnswer? {
        let all = FormEncoding.decodableFields(of: query)
        guard
            all.contains(where: {
                $0.name == "state" && constantTimeEqual($0.value.utf8, state.utf8)
            })
        else { return nil }
        // Only the server knows the state, so an answer that is not valid ends the login too.
        if let name = ["state", "iss", "error", "code"].first(where: { name in
            all.count { $0.name == name } > 1
        }) {
            return .failure(
                .refused(
                    OAuth2Error(
                        error: "invalid_request", description: "Repeated parameter: \(name)")))
        }
        let fields = Dictionary(all.map { ($0.name, $0.value) }) { first, _ in first }
        if let failure = AuthorizationFailure(
            issuer: fields["iss"], expected: issuer, isRequired: requiresIssuer)
        {
            return .failure(failure)
        }
        if let error = fields["error"], !error.isEmpty {
            guard !["cancel", "access_denied"].contains(error) else { return .failure(.declined) }
            return .failure(
                .refused(
                    OAuth2Error(
                        error: error, description: fields["error_description"],
                        uri: fields["error_uri"])))
        }
        guard let code = fields["code"], !code.isEmpty else {
            return .failure(
                .refused(
                    OAuth2Error(error: "invalid_request", description: "Missing parameter: code")))
        }
        return .success(code)
    }
}

extension AuthorizationFailure {
    /// Compares the issuer that a response names with the server's, character by character (RFC 9207
    /// section 2.4).
    ///
    /// - Returns: nil if the response is of the server, as far as it shows.
    init?(issuer named: String?, expected issuer: String, isRequired: Bool) {
        if named.map({ $0.utf8.elementsEqual(issuer.utf8) }) ?? !isRequired { return nil }
        self = .otherIssuer(named, expected: issuer)
    }
}

extension FormEncoding {
    /// The fields that can be decoded, in their order. Names may be repeated.
    static func decodableFields(
        of text: some StringProtocol
    ) -> [(name: String, value: String)] {
        text.split(separator: "&").compactMap {
            decode($0)?.first.map { (name: $0.key, value: $0.value) }
        }
    }
}

/// The response to an authorization request: a code, or why there is none.
package typealias AuthorizationAnswer = Result<String, AuthorizationFailure>

/// Proof Key for Code Exchange (RFC 7636) with the method `S256`: binds the authorization code of a
/// login to the program that started the login.
public struct PKCE: Hashable, Sendable {
    /// The secret of one login, which redeems its code: 43 characters.
    public let codeVerifier: String

    /// Makes a verifier from 32 random bytes. Use it for one login.
    public init() { codeVerifier = RandomText.make() }

    package init(codeVerifier: String) { self.codeVerifier = codeVerifier }

    /// The parameter `code_challenge` of the authorization request: base64url of the verifier's
    /// SHA-256, 43 characters.
    public var codeChallenge: String {
        Base64URL.encode(Data(SHA256.hash(data: Data(codeVerifier.utf8))))
    }
}

/// Unguessable text for `state`, `nonce` and PKCE.
package enum RandomText {
    /// Returns 32 random bytes in base64url, 43 characters.
    package static func make() -> String {
        SymmetricKey(size: .bits256).withUnsafeBytes { Base64URL.encode(Data($0)) }
    }
}
