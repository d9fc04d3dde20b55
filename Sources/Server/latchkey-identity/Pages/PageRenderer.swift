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
        let style = Stylesheet.css
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

    /// - Parameter redirectURI: Where a form on the page can redirect to, in addition to this
    ///   server. Browsers apply the page's `form-action` policy to redirects.
    func render(
        _ page: some Page, status: HTTPResponse.Status = .ok,
        mayLeadTo redirectURI: RedirectURI? = nil
    )
        -> Response
    {
        let content = templates[type(of: page).template]?.render(page) ?? ""
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
            body: ResponseBody(
                byteBuffer: ByteBuffer(
                    string: layout.render(Layout(title: page.title, content: content)))))
        response.headers[named: "Referrer-Policy"] = "same-origin"
        response.headers[named: "X-Frame-Options"] = "DENY"
        return response
    }

    func message(title: String, text: String, status: HTTPResponse.Status = .ok) -> Response {
        render(MessagePage(title: title, text: text), status: status)
    }

    var loggedOut: Response {
        message(title: "Logged out", text: "You are logged out of this browser.")
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

/// A list of a user's devices, each with a button.
struct DevicesPage: Page {
    static let template = "devices"

    /// The texts of a list and the members of its forms.
    struct Kind: Sendable {
        let title: String
        /// The sentence before and after the user's name.
        let leadBefore: String
        let leadAfter: String
        let empty: String
        /// The last part of the path: `/settings/NAME`.
        let path: String
        let button: String
        /// The value of `x_action`.
        let action: String
        /// The query of the page after the action, and its past participle.
        let done: String
        /// The form's member with the device's ID.
        let member: String

        static let biometric = Kind(
            title: "Biometric login", leadBefore: "These devices can log in as", leadAfter: ".",
            empty: "No device is set up.", path: "biometric", button: "Remove", action: "remove",
            done: "removed",
            member: "x_identity_id")
        static let locker = Kind(
            title: "Enrolled devices", leadBefore: "Apps on these devices keep data that only",
            leadAfter: " can open.",
            empty: "No device is enrolled.", path: "locker", button: "Revoke", action: "revoke",
            done: "revoked",
            member: "x_enrolment_id")
    }

    struct Device: Sendable {
        let id: String
        let model: String
        let name: String?
        /// The text after the name.
        let details: String
        /// The second line of text, if any.
        let use: String?
        /// The proof of the device's keys in words, if the server verified one.
        let proof: String?
        /// The key's name, or a part of the ID that distinguishes several enrolments of one
        /// machine.
        let label: String
        /// The device's name in the accessible name of its button.
        let spokenName: String
    }

    let kind: Kind
    let username: String
    let devices: [Device]
    let notice: String?
    let token: String
    let hasNone: Bool

    var title: String { kind.title }
}
