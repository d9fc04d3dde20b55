import FoundationEssentials
import HTTPTypes
import Latchkey
import LatchkeyHTTP
import LatchkeyLogin

/// The demo's browser: fetches the login page over HTTP, fills its form in, and follows where it leads, as a person
/// with a browser would.
struct DemoBrowser: Browser {
    /// More pages than any honest login has.
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
        throw Demonstration.broken("the login page does not come to an end")
    }
}

/// One visit of the browser: its cookies and where it stands.
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

    /// Sends the request and goes where redirections lead.
    private mutating func follow(_ method: HTTPRequest.Method, _ url: String, body: [UInt8]) async throws -> Page {
        var (method, url, body) = (method, url, body)
        for _ in 0..<10 {
            let (response, bytes) = try await send(method, url, body)
            guard (300..<400).contains(response.status.code), let location = response.headerFields[.location] else {
                return Page(url: url, form: HTMLForm(in: String(decoding: bytes, as: UTF8.self)))
            }
            (method, url, body) = (.get, Self.resolve(location, against: url), [])
        }
        throw Demonstration.broken("the server redirects without end")
    }

    private mutating func send(
        _ method: HTTPRequest.Method, _ url: String, _ body: [UInt8]
    ) async throws -> (HTTPResponse, [UInt8]) {
        guard let scheme = url.firstRange(of: "://") else { throw Demonstration.broken("‘\(url)’ is no address") }
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
