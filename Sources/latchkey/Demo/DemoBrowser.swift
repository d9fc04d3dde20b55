import FoundationEssentials
import HTTPTypes
import Latchkey
import LatchkeyHTTP
import LatchkeyLogin

/// The demo's browser: fetches the login page over HTTP, fills in its form, and follows the redirects.
struct DemoBrowser: Browser {
    /// The maximum number of pages of a login.
    private static let maximumSteps = 12

    let narrator: Narrator
    let user: LocalIdentityServer.Announcement.User

    func open(_ url: String) async throws {
        try narrator.detail("The browser shows the login page; the demo logs in as \(user.username).")
        var visit = Visit(transport: AsyncHTTPTransport())
        var page = try await visit.load(url)
        for _ in 0..<Self.maximumSteps {
            guard let form = page.form else { return }
            page = try await visit.submit(form.filled(username: user.username, password: user.password), from: page)
        }
        throw Demonstration.broken("the login has more than \(Self.maximumSteps) pages")
    }
}

/// One visit of the browser, with its cookies.
private struct Visit {
    struct Page {
        let url: String
        let form: HTMLForm?
    }

    let transport: AsyncHTTPTransport
    private var cookies: [String: String] = [:]

    init(transport: AsyncHTTPTransport) {
        self.transport = transport
    }

    mutating func load(_ url: String) async throws -> Page {
        try await follow(.get, url, body: [])
    }

    mutating func submit(_ form: HTMLForm, from page: Page) async throws -> Page {
        let target = form.action.isEmpty ? page.url : Self.resolve(form.action, against: page.url)
        return try await follow(.post, target, body: Array(form.urlEncoded.utf8))
    }

    /// Sends the request and follows redirects.
    private mutating func follow(_ method: HTTPRequest.Method, _ url: String, body: [UInt8]) async throws -> Page {
        var (method, url, body) = (method, url, body)
        for _ in 0..<10 {
            let (response, bytes) = try await send(method, url, body)
            guard (300..<400).contains(response.status.code), let location = response.headerFields[.location] else {
                return Page(url: url, form: HTMLForm(in: String(decoding: bytes, as: UTF8.self)))
            }
            (method, url, body) = (.get, Self.resolve(location, against: url), [])
        }
        throw Demonstration.broken("the server redirects more than 10 times")
    }

    private mutating func send(
        _ method: HTTPRequest.Method, _ url: String, _ body: [UInt8]
    ) async throws -> (HTTPResponse, [UInt8]) {
        guard let scheme = url.firstRange(of: "://") else { throw Demonstration.broken("‘\(url)’ is not an address") }
        let rest = url[scheme.upperBound...]
        let authority = rest.prefix { $0 != "/" && $0 != "?" }
        let path = rest.dropFirst(authority.count)
        var request = HTTPRequest(
            method: method, scheme: String(url[..<scheme.lowerBound]), authority: String(authority),
            path: path.isEmpty ? "/" : String(path))
        if method == .post {
            request.headerFields[.contentType] = "application/x-www-form-urlencoded"
            request.headerFields[.origin] = "\(url[..<scheme.lowerBound])://\(authority)"
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

    private static func resolve(_ reference: String, against url: String) -> String {
        if reference.contains("://") { return reference }
        guard let scheme = url.firstRange(of: "://") else { return reference }
        let authority = url[scheme.upperBound...].prefix { $0 != "/" && $0 != "?" }
        let origin = "\(url[..<scheme.upperBound])\(authority)"
        if reference.hasPrefix("/") { return origin + reference }
        let path = url[authority.endIndex...].prefix { $0 != "?" }
        if reference.hasPrefix("?") { return origin + path + reference }
        let folder = path.lastIndex(of: "/").map { path[...$0] } ?? "/"
        return origin + folder + reference
    }
}

/// The first form of a page with a password field. Parses only the HTML that the demo needs.
struct HTMLForm {
    private struct Field {
        let name: String
        let type: String
        var value: String
    }

    let action: String
    private var fields: [Field]

    /// - Returns: nil if the page has no password field.
    init?(in page: String) {
        for form in page.split(separator: "<form", omittingEmptySubsequences: false).dropFirst() {
            let end = form.firstRange(of: "</form")?.lowerBound ?? form.endIndex
            let fields = form[..<end].split(separator: "<input").dropFirst().compactMap { input -> Field? in
                let tag = input.prefix { $0 != ">" }
                guard let name = Self.attribute("name", of: tag) else { return nil }
                return Field(
                    name: name, type: Self.attribute("type", of: tag) ?? "text",
                    value: Self.attribute("value", of: tag) ?? "")
            }
            guard fields.contains(where: { $0.type == "password" }) else { continue }
            self.fields = fields
            action = Self.attribute("action", of: form.prefix { $0 != ">" }) ?? ""
            return
        }
        return nil
    }

    /// The form with the user name in its text field and the password in its password field.
    func filled(username: String, password: String) -> HTMLForm {
        var form = self
        for index in form.fields.indices {
            switch form.fields[index].type {
            case "password": form.fields[index].value = password
            case "text", "email": form.fields[index].value = username
            default: break
            }
        }
        return form
    }

    /// `application/x-www-form-urlencoded` (URL Standard section 5.2).
    var urlEncoded: String {
        fields.map { "\(Self.encode($0.name))=\(Self.encode($0.value))" }.joined(separator: "&")
    }

    private static func attribute(_ name: String, of tag: some StringProtocol) -> String? {
        guard let start = tag.firstRange(of: " \(name)=\"")?.upperBound else { return nil }
        return [
            ("&quot;", "\""), ("&#39;", "'"), ("&#x27;", "'"), ("&#x2F;", "/"), ("&#x3D;", "="), ("&lt;", "<"),
            ("&gt;", ">"), ("&amp;", "&"),
        ]
        .reduce(String(tag[start...].prefix { $0 != "\"" })) { $0.replacing($1.0, with: $1.1) }
    }

    private static func encode(_ text: String) -> String {
        text.utf8.reduce(into: "") { result, byte in
            let scalar = Unicode.Scalar(byte)
            if scalar.isASCII, scalar.properties.isAlphabetic || scalar.properties.numericType != nil {
                result.unicodeScalars.append(scalar)
            } else {
                result += "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
            }
        }
    }
}
