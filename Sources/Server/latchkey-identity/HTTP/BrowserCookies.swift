import Crypto
import FoundationEssentials
import Hummingbird
import Latchkey

/// The values of this server's cookies in a request.
struct BrowserCookies: Sendable {
    /// A cookie of this server.
    enum Name: String {
        case session = "latchkey_session"
        case form = "latchkey_form"

        /// The cookie's name. The prefix prevents other hosts of the domain from setting the cookie
        /// (RFC 6265bis section 4.1.3.2). Browsers accept the prefix over https only.
        func text(isSecure: Bool) -> String { isSecure ? "__Host-\(rawValue)" : rawValue }
    }

    let session: String?
    /// The cookie of the browser's forms, or a new one.
    let form: String
    /// Whether the browser does not have ``form`` yet.
    let isFormNew: Bool

    init(_ request: Request, isSecure: Bool) {
        let cookies = request.cookies
        session = cookies[Name.session.text(isSecure: isSecure)]?.value
        // Ignores a value that this server did not create, so that an attacker cannot choose the
        // form token.
        let known = cookies[Name.form.text(isSecure: isSecure)]?.value
        isFormNew = known.flatMap(Base64URL.decode)?.count != 32
        form = isFormNew ? OpaqueToken.bytes() : known ?? ""
    }
}

extension IdentityServices {
    private var isSecure: Bool { origin.current?.hasPrefix("https:") ?? true }

    /// This server's cookies in a request.
    func cookies(of request: Request) -> BrowserCookies {
        BrowserCookies(request, isSecure: isSecure)
    }

    /// A cookie that scripts cannot read and that browsers do not send with other sites' forms.
    /// Without `maxAge` it ends with the browser's session.
    func cookie(_ name: BrowserCookies.Name, _ value: String, maxAge: Int? = nil) -> Cookie {
        Cookie(
            name: name.text(isSecure: isSecure), value: value, maxAge: maxAge, path: "/",
            secure: isSecure,
            httpOnly: true, sameSite: .lax)
    }

    /// Renders a page with a form, and sets the browser's form cookie if it has none.
    func show(
        _ page: Page, to cookies: BrowserCookies, status: HTTPResponse.Status = .ok,
        mayLeadTo redirectURI: RedirectURI? = nil
    ) -> Response {
        var response = page.response(status: status, mayLeadTo: redirectURI)
        if cookies.isFormNew { response.setCookie(cookie(.form, cookies.form)) }
        return response
    }

    /// The session of a browser; nil if the user is not logged in.
    func session(_ cookies: BrowserCookies) async throws -> WebSessionStore.Session? {
        guard let token = cookies.session, let session = try await sessions.session(token) else {
            return nil
        }
        if let grantID = session.grantID, try await grants.session(grantID: grantID) == nil {
            return nil
        }
        return session
    }

    /// Ends the session of a browser and deletes its cookie in the response.
    func logOut(_ cookies: BrowserCookies, _ response: Response) async throws -> Response {
        if let session = cookies.session { try await sessions.end(session) }
        var response = response
        response.setCookie(cookie(.session, "", maxAge: 0))
        return response
    }
}

/// Prevents other sites from submitting this server's forms on behalf of a user (cross-site request
/// forgery).
///
/// The browser has a random cookie; each form contains a MAC over that cookie, the session and the
/// form's purpose. Another site can make the browser send the cookie, but does not know the MAC.
struct FormGuard: Sendable {
    enum Purpose: String {
        case authorize, login, settings
    }

    private let key: SymmetricKey

    init(key: Data) {
        self.key = SymmetricKey(data: key)
    }

    /// The value of the form's hidden field `csrf_token`.
    func token(_ cookies: BrowserCookies, for purpose: Purpose) -> String {
        Base64URL.encode(
            Data(HMAC<SHA256>.authenticationCode(for: Self.message(cookies, purpose), using: key)))
    }

    /// Whether a form came from a page that this server showed to this browser.
    func accepts(_ form: FormFields, _ cookies: BrowserCookies, for purpose: Purpose) -> Bool {
        guard let code = form["csrf_token"].flatMap(Base64URL.decode) else { return false }
        return HMAC<SHA256>.isValidAuthenticationCode(
            code, authenticating: Self.message(cookies, purpose), using: key)
    }

    private static func message(_ cookies: BrowserCookies, _ purpose: Purpose) -> Data {
        Data("\(purpose.rawValue)\n\(cookies.form)\n\(cookies.session ?? "")".utf8)
    }
}
