import Foundation
import HTTPTypes
import Latchkey
import LatchkeyHTTP
import LatchkeyLogin
import LatchkeyTestSupport

/// A browser without a screen: it keeps cookies, fills in the server's forms and follows its redirects.
actor FormBrowser: Browser {
    private let user: IdentityProcess.User
    private let transport = AsyncHTTPTransport()
    private var cookies: [String: String] = [:]
    /// The page that was shown last, and its address.
    private(set) var page = ""
    private var address = ""
    private(set) var visited: [String] = []

    init(_ user: IdentityProcess.User) {
        self.user = user
    }

    /// Logs in on the page, and goes where that leads.
    func open(_ url: String) async throws {
        try await follow(.get, url)
        visited.append(address)
        try await submit(from: address, ["username": user.username, "password": user.password, "action": "login"])
    }

    /// Removes the first device of the list on the settings page.
    func removeFirstDevice(at endpoint: String) async throws {
        try await openDevices(at: endpoint)
        try await submit(from: "\(endpoint)/settings/biometric", [:], last: true)
    }

    /// Shows the list of devices on the settings page, logging in before.
    func openDevices(at endpoint: String) async throws {
        try await follow(.get, "\(endpoint)/login")
        if page.contains("name=\"password\"") {
            try await submit(
                from: "\(endpoint)/login", ["username": user.username, "password": user.password, "action": "login"])
        }
        try await follow(.get, "\(endpoint)/settings/biometric")
    }

    private func submit(from url: String, _ fields: [String: String], last: Bool = false) async throws {
        guard
            let form = page.matches(of: /<form method="post" action="([^"]*)">(.*?)<\/form>/.dotMatchesNewlines()).last
        else { return }
        var values = fields
        for input in String(form.2).matches(of: /<input type="hidden" name="([^"]*)" value="([^"]*)">/) {
            values[String(input.1)] = Self.unescape(String(input.2))
        }
        var allowed = CharacterSet.alphanumerics
        allowed.insert(charactersIn: "-._~")
        let body = values.map { name, value in
            "\(name)=\(value.addingPercentEncoding(withAllowedCharacters: allowed) ?? "")"
        }.joined(separator: "&")
        try await follow(.post, Self.resolve(Self.unescape(String(form.1)), from: url), body)
    }

    private func follow(_ method: HTTPRequest.Method, _ url: String, _ body: String = "") async throws {
        var (method, url, body) = (method, url, body)
        for _ in 0..<10 {
            guard let components = URLComponents(string: url) else { return }
            let port = components.port.map { ":\($0)" } ?? ""
            let query = components.percentEncodedQuery.map { "?\($0)" } ?? ""
            var request = HTTPRequest(
                method: method, scheme: components.scheme, authority: (components.host ?? "") + port,
                path: components.percentEncodedPath + query)
            if !cookies.isEmpty {
                request.headerFields[.cookie] = cookies.map { "\($0)=\($1)" }.joined(separator: "; ")
            }
            if method == .post {
                request.headerFields[.contentType] = "application/x-www-form-urlencoded"
                request.headerFields[.origin] = "\(components.scheme ?? "")://\(components.host ?? "")\(port)"
            }
            let (response, bytes) = try await transport.send(request, body: Array(body.utf8))
            for field in response.headerFields[fields: .setCookie] {
                let pair = field.value.prefix { $0 != ";" }.split(separator: "=", maxSplits: 1)
                if pair.count == 2 { cookies[String(pair[0])] = String(pair[1]) }
            }
            guard (300..<400).contains(response.status.code), let target = response.headerFields[.location] else {
                (page, address) = (String(decoding: bytes, as: UTF8.self), url)
                return
            }
            (method, url, body) = (.get, Self.resolve(target, from: url), "")
        }
    }

    private static func resolve(_ target: String, from url: String) -> String {
        URL(string: target, relativeTo: URL(string: url))?.absoluteString ?? target
    }

    private static func unescape(_ text: String) -> String {
        text.replacing("&quot;", with: "\"").replacing("&lt;", with: "<").replacing("&gt;", with: ">")
            .replacing("&#39;", with: "'").replacing("&#61;", with: "=").replacing("&amp;", with: "&")
    }
}
