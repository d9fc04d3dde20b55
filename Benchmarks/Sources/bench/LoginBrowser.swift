import Foundation
import HTTPTypes
import Latchkey
import LatchkeyLogin
import LatchkeyOAuth

/// A browser that logs in on the server's page.
actor LoginBrowser: Browser {
    private let username: String
    private let password: String
    private let transport = CurlTransport()
    private var cookies: [String: String] = [:]

    init(username: String, password: String) {
        self.username = username
        self.password = password
    }

    func open(_ url: String) async throws {
        let (page, address) = try await follow(.get, url, "")
        guard
            let form = page.firstMatch(
                of: /<form method="post" action="([^"]*)">(.*?)<\/form>/.dotMatchesNewlines())
        else { throw Failure(reason: "there is no login page") }
        var fields = [("username", username), ("password", password), ("action", "login")]
        for input in String(form.2).matches(
            of: /<input type="hidden" name="([^"]*)" value="([^"]*)">/)
        {
            fields.append((String(input.1), Self.plain(String(input.2))))
        }
        let body = fields.map { "\($0)=\(Self.escaped($1))" }.joined(separator: "&")
        _ = try await follow(.post, Self.target(Self.plain(String(form.1)), from: address), body)
    }

    private func follow(
        _ method: HTTPRequest.Method, _ url: String, _ body: String
    ) async throws -> (page: String, address: String) {
        var (method, url, body) = (method, url, body)
        for _ in 0..<10 {
            guard let parts = URLComponents(string: url), let host = parts.host,
                let port = parts.port
            else { break }
            var request = HTTPRequest(
                method: method, scheme: parts.scheme, authority: "\(host):\(port)",
                path: parts.percentEncodedPath + (parts.percentEncodedQuery.map { "?\($0)" } ?? ""))
            request.headerFields[.cookie] = cookies.map { "\($0)=\($1)" }.joined(separator: "; ")
            if method == .post {
                request.headerFields[.contentType] = "application/x-www-form-urlencoded"
                request.headerFields[.origin] = "http://\(host):\(port)"
            }
            let (response, bytes) = try await transport.send(request, body: Array(body.utf8))
            for field in response.headerFields[fields: .setCookie] {
                let pair = field.value.prefix { $0 != ";" }.split(separator: "=", maxSplits: 1)
                if pair.count == 2 { cookies[String(pair[0])] = String(pair[1]) }
            }
            guard (300..<400).contains(response.status.code),
                let next = response.headerFields[.location]
            else {
                return (String(decoding: bytes, as: UTF8.self), url)
            }
            (method, url, body) = (.get, Self.target(next, from: url), "")
        }
        throw Failure(reason: "no redirect from \(url)")
    }

    private static func target(_ reference: String, from url: String) -> String {
        URL(string: reference, relativeTo: URL(string: url))?.absoluteString ?? reference
    }

    private static func escaped(_ text: String) -> String {
        text.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
    }

    private static func plain(_ text: String) -> String {
        text.replacing("&quot;", with: "\"").replacing("&lt;", with: "<").replacing(
            "&gt;", with: ">"
        )
        .replacing("&#39;", with: "'").replacing("&#61;", with: "=").replacing("&amp;", with: "&")
    }
}
