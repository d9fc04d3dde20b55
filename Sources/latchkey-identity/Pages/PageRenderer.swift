import Crypto
import FoundationEssentials
import HTTPTypes
import Hummingbird
import Mustache
import NIOCore

/// Turns pages into HTML. Templates are part of the program, so that it runs from anywhere.
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

    /// - Parameter redirectURI: Where a form on the page may lead to, besides this server. Browsers hold a form's
    ///   redirects to the page's policy too.
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
