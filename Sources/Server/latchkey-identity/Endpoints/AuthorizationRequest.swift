import FoundationEssentials
import Latchkey
import LatchkeyRelyingParty

/// A request for an authorization code (RFC 6749 section 4.1.1, RFC 7636, OpenID Connect Core
/// section 3.1.2.1).
struct AuthorizationRequest: Sendable {
    let client: ClientConfiguration
    let redirectURI: RedirectURI
    let state: String?
    let scopes: [String]
    let codeChallenge: String
    let nonce: String?
    /// The thumbprint of the key that must redeem the code (RFC 9449 section 10); nil for any.
    let keyThumbprint: String?
    /// Whether the client forbids a page: `prompt=none`. All other requests show the login form, so
    /// that they also meet `prompt=login` and any `max_age`.
    let isSilent: Bool
    /// The only user who may log in.
    let pinnedUserID: String?
    /// The grant of `id_token_hint`, which a new login of its user continues; nil if the client
    /// requests a new session with `offline_access`.
    let hintedGrantID: String?
    /// The user name to put into the form.
    let usernameHint: String?
    /// Whether the user followed the page's link to cancel: `x_cancel=1`.
    let isCancelled: Bool

    /// The reason why no code is issued, for the client.
    struct Failure: Error {
        let redirectURI: RedirectURI
        let state: String?
        let error: OAuthError
    }

    /// - Throws: ``UnregisteredValue``, ``Failure``
    init(_ fields: FormFields, services: IdentityServices) throws {
        guard let client = fields["client_id"].flatMap(services.configuration.client) else {
            throw UnregisteredValue(
                name: "client ID", value: fields["client_id"],
                registered: services.configuration.clients.map(\.id))
        }
        guard let uri = fields["redirect_uri"].flatMap(RedirectURI.init),
            uri.isRegistered(in: client.redirectURIs)
        else {
            throw UnregisteredValue(
                name: "return address", value: fields["redirect_uri"],
                registered: client.redirectURIs)
        }
        self.client = client
        redirectURI = uri
        state = fields["state"]
        do throws(OAuthError) {
            if let name = fields.repeatedField {
                throw OAuthError.invalidRequest("\(name) is repeated")
            }
            // OpenID Connect Core sections 6 and 7.2.1: a request whose parameters are elsewhere must
            // not be answered as if they were missing.
            for name in ["request", "request_uri", "registration"] where fields[name] != nil {
                throw OAuthError("\(name)_not_supported", "\(name) is not supported")
            }
            guard fields["response_mode"] ?? "query" == "query" else {
                throw OAuthError.invalidRequest("only 'query' response mode is supported")
            }
            guard let type = fields["response_type"] else {
                throw OAuthError.invalidRequest("response_type is required")
            }
            guard type == "code" else {
                throw OAuthError(
                    "unsupported_response_type", "only 'code' response type is supported")
            }
            // OpenID Connect Core section 3.1.2.1: unknown scopes are ignored.
            scopes = fields.words("scope").filter(Scope.all.contains)
            try Scope.validateLogin(scopes)
            guard let challenge = fields["code_challenge"] else {
                throw OAuthError.invalidRequest("PKCE code challenge is required")
            }
            guard fields["code_challenge_method"] == "S256", ProofKey.isChallenge(challenge) else {
                throw OAuthError.invalidRequest("only 'S256' PKCE transform is supported")
            }
            codeChallenge = challenge
            nonce = fields["nonce"]
            keyThumbprint = fields["dpop_jkt"]
            guard keyThumbprint.map({ Base64URL.decode($0)?.count == 32 }) ?? true else {
                throw OAuthError.invalidRequest("dpop_jkt is not a SHA-256 thumbprint")
            }
            isSilent = fields.words("prompt").contains("none")
            let hint = try fields["login_hint"].map { text throws(OAuthError) in
                try LoginHint(text)
            }
            let hinted = try Self.hinted(fields["id_token_hint"], hint, services: services)
            pinnedUserID = if case .userID(let id) = hint { id } else { hinted?.subject }
            hintedGrantID = scopes.contains(Scope.offlineAccess) ? nil : hinted?.grantID
            usernameHint = if case .username(let name) = hint { name } else { nil }
            isCancelled = fields["x_cancel"] == "1"
        } catch {
            throw Failure(redirectURI: uri, state: fields["state"], error: error)
        }
    }

    /// An error to report to the client.
    func failure(_ error: String, _ description: String) -> Failure {
        Failure(
            redirectURI: redirectURI, state: state, error: OAuthError(error, description))
    }

    /// The claims of `id_token_hint`.
    private static func hinted(
        _ idTokenHint: String?, _ hint: LoginHint?, services: IdentityServices
    ) throws(OAuthError) -> IDToken? {
        guard let idTokenHint else { return nil }
        guard let token = services.verifiedHint(idTokenHint) else {
            throw .invalidRequest("invalid id_token_hint")
        }
        if case .userID(let id) = hint, id != token.subject {
            throw .invalidRequest("invalid id_token_hint")
        }
        return token
    }
}

/// The parameter `login_hint`: the user whom the client expects.
enum LoginHint: Hashable, Sendable {
    /// A user name (OpenID Connect Core section 3.1.2.1), or `?type=login_id&username=NAME`: the
    /// name is put into the form.
    case username(String)
    /// `?type=user_id&user_id=SUB`: only this user may log in. Deployed Authgear servers do not
    /// have this type.
    case userID(String)

    private static let prefix = "https://authgear.com/login_hint?"

    /// - Throws: ``OAuthError`` with the descriptions of deployed Authgear servers.
    init(_ text: String) throws(OAuthError) {
        guard text.hasPrefix(Self.prefix) else {
            self = .username(text)
            return
        }
        let fields = FormFields(text.dropFirst(Self.prefix.count))
        let hint: LoginHint?
        switch fields?["type"] {
        case _ where fields == nil: hint = nil
        case "login_id":
            hint = (fields?["username"] ?? fields?["email"] ?? fields?["phone"]).map(
                LoginHint.username)
        case "user_id": hint = fields?["user_id"].map(LoginHint.userID)
        case let type: throw .invalidRequest("invalid login_hint type: \(type ?? "")")
        }
        guard let hint else { throw .invalidRequest("invalid login_hint: \(text)") }
        self = hint
    }
}
