import Hummingbird
import Latchkey

/// What a browser's cookies say.
struct BrowserCookies: Sendable {
    /// A cookie of this server.
    enum Name: String {
        case session = "latchkey_session"
        case form = "latchkey_form"

        /// Over https the prefix keeps every other host of the domain from setting it (RFC 6265bis section 4.1.3.2). A browser
        /// takes no such name over http, where another port of this host has the same cookies anyway.
        func text(isSecure: Bool) -> String { isSecure ? "__Host-\(rawValue)" : rawValue }
    }

    let session: String?
    let form: String?

    init(_ request: Request, isSecure: Bool) {
        let cookies = request.cookies
        session = cookies[Name.session.text(isSecure: isSecure)]?.value
        // A cookie that this server did not make is not answered with a form that it would pass.
        form = cookies[Name.form.text(isSecure: isSecure)].flatMap {
            Base64URL.decode($0.value)?.count == 32 ? $0.value : nil
        }
    }
}

extension IdentityServices {
    private var isSecure: Bool { origin.current?.hasPrefix("https:") ?? true }

    /// The cookies of this server that came with a request.
    func cookies(of request: Request) -> BrowserCookies { BrowserCookies(request, isSecure: isSecure) }

    /// A cookie that scripts can't read, that other sites' forms don't carry, and that ends with the browser.
    func cookie(_ name: BrowserCookies.Name, _ value: String, maxAge: Int? = nil) -> Cookie {
        Cookie(
            name: name.text(isSecure: isSecure), value: value, maxAge: maxAge, path: "/", secure: isSecure,
            httpOnly: true, sameSite: .lax)
    }
}
