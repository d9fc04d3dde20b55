import Crypto
import FoundationEssentials
import Hummingbird
import Latchkey
import LatchkeyRelyingParty

/// The values of this server's cookies in a request.
struct BrowserCookies: Sendable {
    /// A cookie of this server.
    enum Name: String {
        case session = "latchkey_session"
        case form = "latchkey_form"

        /// The cookie's name. The prefix prevents other hosts of the domain from setting the cookie (RFC 6265bis
        /// section 4.1.3.2). Browsers accept the prefix over https only.
        func text(isSecure: Bool) -> String { isSecure ? "__Host-\(rawValue)" : rawValue }
    }

    let session: String?
    let form: String?

    init(_ request: Request, isSecure: Bool) {
        let cookies = request.cookies
        session = cookies[Name.session.text(isSecure: isSecure)]?.value
        // Ignores a value that this server did not create, so that an attacker cannot choose the form token.
        form = cookies[Name.form.text(isSecure: isSecure)].flatMap {
            Base64URL.decode($0.value)?.count == 32 ? $0.value : nil
        }
    }
}

extension IdentityServices {
    private var isSecure: Bool { origin.current?.hasPrefix("https:") ?? true }

    /// This server's cookies in a request.
    func cookies(of request: Request) -> BrowserCookies { BrowserCookies(request, isSecure: isSecure) }

    /// A cookie that scripts cannot read and that browsers do not send with other sites' forms. Without `maxAge` it
    /// ends with the browser's session.
    func cookie(_ name: BrowserCookies.Name, _ value: String, maxAge: Int? = nil) -> Cookie {
        Cookie(
            name: name.text(isSecure: isSecure), value: value, maxAge: maxAge, path: "/", secure: isSecure,
            httpOnly: true, sameSite: .lax)
    }
}

/// Prevents other sites from submitting this server's forms on behalf of a user (cross-site request forgery).
///
/// The browser has a random cookie; each form contains a MAC over that cookie, the session and the form's purpose.
/// Another site can make the browser send the cookie, but does not know the MAC.
struct FormGuard: Sendable {
    static let fieldName = "csrf_token"

    private let key: SymmetricKey
    private let random: RandomSource

    init(key: Data, random: RandomSource) {
        self.key = SymmetricKey(data: key)
        self.random = random
    }

    /// Creates a random cookie value.
    func newCookie() -> String { OpaqueToken.bytes(random) }

    /// The value of the form's hidden field ``fieldName``.
    func token(cookie: String, session: String?, purpose: String) -> String {
        Base64URL.encode(Data(code(cookie, session, purpose)))
    }

    /// Whether a form came from a page that this server showed to this browser.
    func accepts(_ token: String?, cookie: String?, session: String?, purpose: String) -> Bool {
        guard let token, let cookie, let bytes = Base64URL.decode(token) else { return false }
        return constantTimeEqual(bytes, Data(code(cookie, session, purpose)))
    }

    private func code(_ cookie: String, _ session: String?, _ purpose: String) -> HMAC<SHA256>.MAC {
        HMAC<SHA256>.authenticationCode(for: Data("\(purpose)\n\(cookie)\n\(session ?? "")".utf8), using: key)
    }
}
