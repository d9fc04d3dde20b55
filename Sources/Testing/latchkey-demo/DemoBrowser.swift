import FoundationEssentials
import HTTPTypes
import Latchkey
import LatchkeyOAuth

/// The demo's browser: fetches the login page over HTTP, fills in its form, and follows the
/// redirects.
enum DemoBrowser {
    /// The maximum number of pages of a login.
    private static let maximumSteps = 12

    static func logIn(at url: String, username: String, password: String) async throws {
        var session = BrowserSession()
        var page = try await session.load(try endpoint(url), .get)
        for _ in 0..<maximumSteps {
            guard let form = page.form else { return }
            let target = form.action.isEmpty ? page.url : try endpoint(form.action, on: page.url)
            let fields = form.fields(username: username, password: password)
            page = try await session.load(
                target, .post, body: Array(FormEncoding.encode(fields).utf8))
        }
        throw DemoError("the login has more than \(maximumSteps) pages")
    }

    /// Resolves a reference (RFC 3986 section 5).
    fileprivate static func endpoint(_ reference: String, on page: Endpoint? = nil) throws
        -> Endpoint
    {
        let url = URL(string: reference, relativeTo: page.flatMap { URL(string: $0.text) })
        guard let url, let endpoint = Endpoint(url.absoluteString) else {
            throw DemoError("‘\(reference)’ is not an address")
        }
        return endpoint
    }
}

/// The browser's connection, with its cookies.
private struct BrowserSession {
    struct Page {
        let url: Endpoint
        let form: HTMLForm?
    }

    private let transport = CurlTransport()
    private var cookies: [String: String] = [:]

    /// Sends a request and follows redirects.
    mutating func load(_ url: Endpoint, _ method: HTTPRequest.Method, body: [UInt8] = [])
        async throws -> Page
    {
        var (method, url, body) = (method, url, body)
        for _ in 0..<10 {
            let (response, bytes) = try await send(method, to: url, body: body)
            guard (300..<400).contains(response.status.code),
                let location = response.headerFields[.location]
            else {
                return Page(url: url, form: HTMLForm(in: String(decoding: bytes, as: UTF8.self)))
            }
            (method, url, body) = (.get, try DemoBrowser.endpoint(location, on: url), [])
        }
        throw DemoError("the server redirects more than 10 times")
    }

    private mutating func send(
        _ method: HTTPRequest.Method, to url: Endpoint, body: [UInt8]
    ) async throws -> (HTTPResponse, [UInt8]) {
        var request = url.request(method)
        if method == .post {
            request.headerFields[.contentType] = "application/x-www-form-urlencoded"
            request.headerFields[.origin] = url.origin
        }
        if !cookies.isEmpty {
            request.headerFields[.cookie] = cookies.map { "\($0)=\($1)" }.joined(separator: "; ")
        }
        let (response, bytes) = try await transport.send(request, body: body)
        for cookie in response.headerFields[values: .setCookie] {
            let pair = cookie.prefix { $0 != ";" }.split(separator: "=", maxSplits: 1)
            if pair.count == 2 { cookies[String(pair[0])] = String(pair[1]) }
        }
        return (response, bytes)
    }
}

/// The first form of a page with a password field. Parses only the HTML that the demo needs.
struct HTMLForm {
    let action: String
    private let fields: [(name: String, type: String, value: String)]

    /// - Returns: nil if the page has no password field.
    init?(in page: String) {
        for form in page.split(separator: "<form", omittingEmptySubsequences: false).dropFirst() {
            let end = form.firstRange(of: "</form")?.lowerBound ?? form.endIndex
            let fields = form[..<end].split(separator: "<input").dropFirst().compactMap {
                input -> (name: String, type: String, value: String)? in
                let tag = input.prefix { $0 != ">" }
                guard let name = Self.attribute("name", of: tag) else { return nil }
                return (
                    name, Self.attribute("type", of: tag) ?? "text",
                    Self.attribute("value", of: tag) ?? ""
                )
            }
            guard fields.contains(where: { $0.type == "password" }) else { continue }
            self.fields = fields
            action = Self.attribute("action", of: form.prefix { $0 != ">" }) ?? ""
            return
        }
        return nil
    }

    /// The fields, with the user name in the text field and the password in the password field.
    func fields(username: String, password: String) -> [(name: String, value: String)] {
        fields.map { field in
            switch field.type {
            case "password": (field.name, password)
            case "text", "email": (field.name, username)
            default: (field.name, field.value)
            }
        }
    }

    private static func attribute(_ name: String, of tag: some StringProtocol) -> String? {
        guard let start = tag.firstRange(of: " \(name)=\"")?.upperBound else { return nil }
        return [
            ("&quot;", "\""), ("&#39;", "'"), ("&#x27;", "'"), ("&#x2F;", "/"), ("&#x3D;", "="),
            ("&lt;", "<"),
            ("&gt;", ">"), ("&amp;", "&"),
        ]
        .reduce(String(tag[start...].prefix { $0 != "\"" })) { $0.replacing($1.0, with: $1.1) }
    }
}
