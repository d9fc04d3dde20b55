import Crypto
import FoundationEssentials
import HTTPTypes
import Hummingbird
import Mustache
import NIOCore

/// Renders pages as HTML. The templates are compiled into the program.
struct PageRenderer: Sendable {
    private struct Layout {
        let title: String
        let style: String
        let content: String
    }

    private let templates: [String: MustacheTemplate]
    private let layout: MustacheTemplate
    private let styleHash: String

    init() throws {
        templates = try Templates.pages.mapValues { try MustacheTemplate(string: $0) }
        layout = try MustacheTemplate(string: Templates.layout)
        styleHash = Data(SHA256.hash(data: Data(Stylesheet.css.utf8))).base64EncodedString()
    }

    /// - Parameter redirectURI: Where a form on the page can redirect to, in addition to this server. Browsers apply
    ///   the page's `form-action` policy to redirects.
    func render(_ page: some Page, status: HTTPResponse.Status = .ok, mayLeadTo redirectURI: RedirectURI? = nil)
        -> Response
    {
        let content = templates[type(of: page).template]?.render(page) ?? ""
        let html = layout.render(Layout(title: page.title, style: Stylesheet.css, content: content))
        let target = redirectURI.map { " \($0.contentSecuritySource)" } ?? ""
        var response = Response(
            status: status,
            headers: [
                .contentType: "text/html; charset=utf-8",
                .cacheControl: "no-store",
                .contentSecurityPolicy:
                    "default-src 'none'; style-src 'sha256-\(styleHash)'; form-action 'self'\(target); "
                    + "frame-ancestors 'none'; base-uri 'none'",
            ],
            body: ResponseBody(byteBuffer: ByteBuffer(string: html)))
        response.headers[named: "Referrer-Policy"] = "same-origin"
        response.headers[named: "X-Frame-Options"] = "DENY"
        return response
    }

    func message(title: String, text: String, status: HTTPResponse.Status = .ok) -> Response {
        render(MessagePage(title: title, text: text), status: status)
    }
}

/// The values of a page. Its properties are the names in its template.
protocol Page: Sendable {
    /// The name of the template.
    static var template: String { get }
    var title: String { get }
}

/// The form with a user name and a password.
struct LoginPage: Page {
    static let template = "login"
    let title = "Log in"
    let action: String
    let clientName: String?
    let username: String?
    let isPinned: Bool
    let canCancel: Bool
    let problem: String?
    let token: String
}

/// A title and a sentence.
struct MessagePage: Page {
    static let template = "message"
    let title: String
    let text: String
}

/// A question with one button.
struct ConfirmPage: Page {
    static let template = "confirm"
    let title: String
    let text: String
    let action: String
    let button: String
    let token: String
}

/// A user's settings.
struct SettingsPage: Page {
    static let template = "settings"
    let title = "Settings"
    let username: String
    let showsBiometric: Bool
    let deviceCount: String
    let showsLocker: Bool
    let enrolmentCount: String
    let token: String
}

/// A user's biometric identities.
struct BiometricPage: Page {
    static let template = "biometric"

    struct Device: Sendable {
        let id: String
        let model: String
        let name: String?
        let kid: String
        let day: String
    }

    let title = "Biometric login"
    let username: String
    let devices: [Device]
    let notice: String?
    let token: String
    let hasNone: Bool
}

/// A user's enrolled devices.
struct LockerPage: Page {
    static let template = "locker"

    struct Device: Sendable {
        let id: String
        let model: String
        let name: String?
        let client: String
        /// The first eight characters of ``id``, to distinguish several enrolments of one machine.
        let shortID: String
        let easyAccess: String
        let day: String
        let lastUse: String
    }

    let title = "Enrolled devices"
    let username: String
    let devices: [Device]
    let notice: String?
    let token: String
    let hasNone: Bool
}
