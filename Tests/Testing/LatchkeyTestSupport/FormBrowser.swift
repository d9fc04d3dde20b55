package import Foundation
internal import HTTPTypes
internal import Latchkey
package import LatchkeyOAuth
internal import Testing

/// A browser without a screen: it keeps cookies, fills in the last form of a page and follows
/// redirects.
package actor FormBrowser {
    private let user: IdentityProcess.User
    private let transport: any HTTPTransport
    private let end: String?
    private var cookies: [String: String] = [:]
    /// The last page.
    package private(set) var page = ""
    /// The URL of the last page.
    package private(set) var address = ""
    /// The URLs of the pages that ``load(_:)`` has shown, after redirects.
    package private(set) var loaded: [String] = []
    /// The query of the redirect to the end URL.
    package private(set) var answer: String?

    /// - Parameters:
    ///   - user: The user who logs in.
    ///   - end: The start of the URL that is not opened, because a redirect to it ends the login.
    package init(
        _ user: IdentityProcess.User, transport: any HTTPTransport, endingAt end: String? = nil
    ) {
        self.user = user
        self.transport = transport
        self.end = end
    }

    /// Opens a URL.
    package func load(_ url: String) async throws {
        try await follow(.get, url)
        loaded.append(address)
    }

    /// Sends the user's name and password in the page's form.
    package func logIn() async throws {
        try await submit(["username": user.username, "password": user.password, "action": "login"])
    }

    /// Sends the last form of the page with its hidden fields and `fields`. Does nothing if the
    /// page has no form.
    package func submit(_ fields: [String: String] = [:]) async throws {
        let forms = page.matches(
            of: /<form method="post" action="([^"]*)">(.*?)<\/form>/.dotMatchesNewlines())
        guard let form = forms.last else { return }
        var values = fields
        for input in String(form.2).matches(
            of: /<input type="hidden" name="([^"]*)" value="([^"]*)">/)
        {
            values[String(input.1)] = Self.unescape(String(input.2))
        }
        try await post(Self.resolve(Self.unescape(String(form.1)), from: address), values)
    }

    /// Sends a form to a URL.
    package func post(_ url: String, _ fields: [String: String]) async throws {
        try await follow(.post, url, Self.encode(fields))
    }

    /// Encodes a form or a query.
    package static func encode(_ fields: [String: String]) -> String {
        var allowed = CharacterSet.alphanumerics
        allowed.insert(charactersIn: "-._~")
        return fields.map { name, value in
            "\(name)=\(value.addingPercentEncoding(withAllowedCharacters: allowed) ?? "")"
        }.joined(separator: "&")
    }

    private func follow(_ method: HTTPRequest.Method, _ url: String, _ body: String = "")
        async throws
    {
        var (method, url, body) = (method, url, body)
        for _ in 0..<10 {
            guard let components = URLComponents(string: url) else { return }
            let port = components.port.map { ":\($0)" } ?? ""
            let authority = (components.host ?? "") + port
            let query = components.percentEncodedQuery.map { "?\($0)" } ?? ""
            var request = HTTPRequest(
                method: method, scheme: components.scheme, authority: authority,
                path: components.percentEncodedPath + query)
            if !cookies.isEmpty {
                request.headerFields[.cookie] = cookies.map { "\($0)=\($1)" }.joined(
                    separator: "; ")
            }
            if method == .post {
                request.headerFields[.contentType] = "application/x-www-form-urlencoded"
                request.headerFields[.origin] = "\(components.scheme ?? "")://\(authority)"
            }
            let (response, bytes) = try await transport.send(request, body: Array(body.utf8))
            for field in response.headerFields[fields: .setCookie] {
                let pair = field.value.prefix { $0 != ";" }.split(separator: "=", maxSplits: 1)
                if pair.count == 2 { cookies[String(pair[0])] = String(pair[1]) }
            }
            guard (300..<400).contains(response.status.code),
                let target = response.headerFields[.location]
            else {
                (page, address) = (String(decoding: bytes, as: UTF8.self), url)
                return
            }
            if let end, target.hasPrefix(end) {
                answer = target.split(separator: "?", maxSplits: 1).last.map(String.init)
                return
            }
            (method, url, body) = (.get, Self.resolve(target, from: url), "")
        }
    }

    private static func resolve(_ target: String, from url: String) -> String {
        URL(string: target, relativeTo: URL(string: url))?.absoluteString ?? target
    }

    private static func unescape(_ text: String) -> String {
        text.replacing("&quot;", with: "\"").replacing("&lt;", with: "<").replacing(
            "&gt;", with: ">"
        )
        .replacing("&#39;", with: "'").replacing("&#61;", with: "=").replacing("&amp;", with: "&")
    }
}

extension FormBrowser {
    /// The redirect URI of the demo's client.
    package static let redirectURI = "http://127.0.0.1/callback"

    /// Logs a user in on the server's page.
    ///
    /// - Parameters:
    ///   - challenge: The code challenge of the request.
    ///   - more: Other parameters of the request.
    /// - Returns: The authorization code.
    package static func code(
        of server: IdentityProcess, _ challenge: String, _ more: [String: String] = [:]
    ) async throws -> String {
        try await logIn(at: server, challenge, more).code
    }

    private static func logIn(
        at server: IdentityProcess, _ challenge: String, _ more: [String: String]
    ) async throws -> (browser: FormBrowser, code: String) {
        let user = try #require(server.users.first)
        let browser = FormBrowser(user, transport: CurlTransport(), endingAt: redirectURI)
        let query = [
            "client_id": server.clientID, "redirect_uri": redirectURI, "response_type": "code",
            "state": "s",
            "scope": "openid offline_access https://authgear.com/scopes/full-access",
            "code_challenge": challenge, "code_challenge_method": "S256",
        ].merging(more) { $1 }
        try await browser.load("\(server.endpoint)/oauth2/authorize?\(encode(query))")
        try await browser.logIn()
        let page = await browser.page
        let answer = try #require(await browser.answer, "the login led nowhere: \(page)")
        let code = URLComponents(string: "?\(answer)")?.queryItems?.first { $0.name == "code" }?
            .value
        return (browser, try #require(code))
    }

    /// Logs a user in on the server's page, and redeems the code.
    ///
    /// - Returns: The token endpoint's JSON response, with an ID token and a refresh token.
    package static func tokenResponse(of server: IdentityProcess) async throws -> Data {
        let pkce = PKCE()
        let (browser, code) = try await logIn(at: server, pkce.codeChallenge, ["nonce": "n"])
        try await browser.post(
            "\(server.endpoint)/oauth2/token",
            [
                "grant_type": "authorization_code", "client_id": server.clientID,
                "code": code, "redirect_uri": redirectURI,
                "code_verifier": pkce.codeVerifier,
            ])
        return Data(await browser.page.utf8)
    }
}
