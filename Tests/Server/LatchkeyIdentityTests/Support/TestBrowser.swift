import HTTPTypes
import Latchkey
import Testing

@testable import latchkey_identity

/// A minimal browser: it keeps cookies and sends forms.
final class TestBrowser {
    static let sessionCookie = BrowserCookies.Name.session.rawValue

    let server: TestServer
    var cookies: [String: String] = [:]

    init(server: TestServer) {
        self.server = server
    }

    func get(_ path: String) async throws -> Answer {
        remember(try await server.send(.get, path, headers: cookieHeader))
    }

    func post(_ path: String, _ form: [String: String]) async throws -> Answer {
        var headers = cookieHeader
        headers[.contentType] = "application/x-www-form-urlencoded"
        return remember(
            try await server.send(.post, path, headers: headers, body: TestServer.encode(form)))
    }

    /// Opens the authorization page, fills in the form and sends it.
    func login(
        _ request: AuthorizationParameters, username: String, password: String = TestServer.password
    ) async throws -> Answer {
        let page = try await get(request.path)
        return try await post(
            request.path,
            [
                "csrf_token": page.hiddenField("csrf_token"), "username": username,
                "password": password,
                "action": "login",
            ])
    }

    /// Logs in on the server's own page.
    func loginToSettings(_ username: String, password: String = TestServer.password) async throws
        -> Answer
    {
        let page = try await get("/login")
        return try await post(
            "/login",
            [
                "csrf_token": page.hiddenField("csrf_token"), "username": username,
                "password": password,
            ])
    }

    private var cookieHeader: HTTPFields {
        cookies.isEmpty
            ? [:] : [.cookie: cookies.map { "\($0.key)=\($0.value)" }.joined(separator: "; ")]
    }

    private func remember(_ answer: Answer) -> Answer {
        for header in answer.headers[values: .setCookie] {
            let pair = header.prefix { $0 != ";" }.split(
                separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            if header.contains("Max-Age=0") {
                cookies[String(pair[0])] = nil
            } else {
                cookies[String(pair[0])] = String(pair[1])
            }
        }
        return answer
    }
}
