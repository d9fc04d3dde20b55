import Foundation
import HTTPTypes
import Latchkey
import LatchkeyHTTP
import LatchkeyLocker
import LatchkeyOAuth
import LatchkeyTestSupport
import Testing

/// A custom channel: it fills in the server's login form, and returns the code and its verifier.
actor FormChannel: StrongAuthenticationChannel {
    /// The user's next action.
    enum Manner: Sendable {
        case logIn
        /// Leaves the page open until it is withdrawn.
        case hesitate
        case decline
    }

    private let user: IdentityProcess.User
    private let transport = AsyncHTTPTransport()
    private var manners: [Manner] = []
    private(set) var requests: [StrongAuthenticationRequest] = []

    init(_ user: IdentityProcess.User) {
        self.user = user
    }

    /// The user's actions at the next logins. After these the user logs in.
    func next(_ manners: Manner...) { self.manners = manners }

    func authorize(_ request: StrongAuthenticationRequest) async throws -> AuthorizationCode {
        requests.append(request)
        switch manners.isEmpty ? .logIn : manners.removeFirst() {
        case .logIn: break
        case .hesitate: try await Task.sleep(for: .seconds(3600))
        case .decline: throw CancellationError()
        }
        let redirectURI = "http://127.0.0.1:9/callback"
        let login = AuthorizationRequest(
            clientID: request.clientID, scope: request.scope, options: AuthorizationOptions(prompt: [.login]),
            issuer: request.issuer, requiresIssuer: request.requiresIssuer, hint: nil,
            nonce: request.nonce)
        let endpoint = try #require(Endpoint(request.authorizationEndpoint))
        var visit = Visit(transport: transport, end: redirectURI)
        try await visit.follow(.get, login.url(at: endpoint, redirectURI: redirectURI))
        try await visit.submit(["username": user.username, "password": user.password, "action": "login"])
        let query = try #require(visit.answer, "the login led nowhere: \(visit.page)")
        guard case .code(let code)? = login.answer(query) else { throw CancellationError() }
        return AuthorizationCode(code: code, codeVerifier: login.pkce.verifier, redirectURI: redirectURI)
    }
}

/// One visit of a user with a browser.
private struct Visit {
    let transport: AsyncHTTPTransport
    /// Where it ends.
    let end: String
    private(set) var page = ""
    private(set) var answer: String?
    private var address = ""
    private var cookies: [String: String] = [:]

    init(transport: AsyncHTTPTransport, end: String) {
        self.transport = transport
        self.end = end
    }

    mutating func submit(_ fields: [String: String]) async throws {
        let form = try #require(
            page.matches(of: /<form method="post" action="([^"]*)">(.*?)<\/form>/.dotMatchesNewlines()).last)
        var values = fields
        for input in String(form.2).matches(of: /<input type="hidden" name="([^"]*)" value="([^"]*)">/) {
            values[String(input.1)] = Self.unescape(String(input.2))
        }
        let body = FormEncoding.encode(values.map { (name: $0.key, value: $0.value) })
        try await follow(.post, resolve(Self.unescape(String(form.1))), body)
    }

    mutating func follow(_ method: HTTPRequest.Method, _ url: String, _ body: String = "") async throws {
        var (method, url, body) = (method, url, body)
        for _ in 0..<10 {
            let endpoint = try #require(Endpoint(url))
            var request = endpoint.request(method)
            if !cookies.isEmpty {
                request.headerFields[.cookie] = cookies.map { "\($0)=\($1)" }.joined(separator: "; ")
            }
            if method == .post {
                request.headerFields[.contentType] = "application/x-www-form-urlencoded"
                request.headerFields[.origin] = endpoint.origin
            }
            let (response, bytes) = try await transport.send(request, body: Array(body.utf8))
            for field in response.headerFields[fields: .setCookie] {
                let pair = field.value.prefix { $0 != ";" }.split(separator: "=", maxSplits: 1)
                if pair.count == 2 { cookies[String(pair[0])] = String(pair[1]) }
            }
            address = url
            guard (300..<400).contains(response.status.code), let target = response.headerFields[.location] else {
                page = String(decoding: bytes, as: UTF8.self)
                return
            }
            guard !target.hasPrefix(end) else {
                answer = target.split(separator: "?", maxSplits: 1).last.map(String.init)
                return
            }
            (method, url, body) = (.get, resolve(target), "")
        }
    }

    private func resolve(_ target: String) -> String {
        URL(string: target, relativeTo: URL(string: address))?.absoluteString ?? target
    }

    private static func unescape(_ text: String) -> String {
        text.replacing("&quot;", with: "\"").replacing("&lt;", with: "<").replacing("&gt;", with: ">")
            .replacing("&#39;", with: "'").replacing("&#61;", with: "=").replacing("&amp;", with: "&")
    }
}
