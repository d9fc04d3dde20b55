import FoundationEssentials
import HTTPTypes
import Hummingbird
import Latchkey
import LatchkeyRelyingParty
import LatchkeyTestSupport
import NIOCore
import Testing

@testable import latchkey_identity

@Suite("Authorization and login") struct AuthorizationTests {
    @Test func `a login redirects with a code and the state`() async throws {
        try await TestServer.run { server in
            let browser = TestBrowser(server: server)
            let callback = try await browser.login(AuthorizationParameters(), username: "alice")
            #expect(callback.status == 303)
            #expect(
                callback.headers[.location]?.hasPrefix(TestServer.redirectURI + "?code=") == true)
            #expect(try callback.redirectParameter("state") == "state-1")
            #expect(try callback.redirectParameter("iss") == server.origin)
            let document = try await server.send(.get, "/.well-known/openid-configuration")
                .success()
            #expect(document["authorization_response_iss_parameter_supported"] == .bool(true))
            let code = try #require(try callback.redirectParameter("code"))
            let tokens = try Tokens(
                await server.exchange(code: code, AuthorizationParameters()).success())
            #expect(try tokens.claims["nonce"] == .string("nonce-1"))
            #expect(try tokens.claims["amr"] == nil)
        }
    }

    @Test(arguments: [
        (["client_id": "nobody"], "uses the client ID “nobody”, which is not registered"),
        (["client_id": ""], "uses a client ID that is not registered"),
        (["client_id": "call 555 now"], "uses a client ID that is not registered"),
        (
            ["redirect_uri": "http://127.0.0.1:4711/other?<b>"],
            "the return address “http://127.0.0.1:4711/other?&lt;b&gt;”, which is not registered"
        ),
        (["redirect_uri": "http://127.0.0.1.evil.example/callback"], "not registered"),
        (["redirect_uri": "http://localhost:4711/callback"], "not registered"),
        (["redirect_uri": "https://127.0.0.1:4711/callback"], "not registered"),
        (["redirect_uri": "http://user@127.0.0.1:4711/callback"], "not registered"),
        (["redirect_uri": "com.example.app://done/more"], "not registered"),
        (["redirect_uri": ""], "not registered"),
    ])
    func `an unknown client or address gets a page instead of a redirect`(
        change: [String: String], text: String
    )
        async throws
    {
        try await TestServer.run { server in
            let answer = try await server.send(.get, AuthorizationParameters(more: change).path)
            #expect(answer.status == 400)
            #expect(answer.headers[.location] == nil)
            #expect(answer.body.contains(text), "\(answer.body)")
            #expect(!answer.body.contains(TestServer.siteRedirectURI))
        }
    }

    @Test func `the log names the registered values`() async throws {
        let log = RecordedLog()
        try await TestServer.run(
            logger: log.logger
        ) { server in
            _ = try await server.send(.get, AuthorizationParameters(more: ["client_id": "x"]).path)
            let other = AuthorizationParameters(more: ["redirect_uri": "https://a.example/\n"]).path
            _ = try await server.send(.get, other)
        }
        let lines = log.text.split(separator: "\nnotice ")
        let refused = lines.filter { $0.contains("the return address is not registered") }
        #expect(refused.count == 1, "\(log.text)")
        #expect(
            refused.contains { $0.contains("com.example.app://done") && $0.contains("a.example") })
        let clients = lines.filter { $0.contains("the client ID is not registered") }
        #expect(clients.count == 1 && clients.allSatisfy { $0.contains("app") }, "\(log.text)")
    }

    @Test(arguments: [
        (["response_type": "token"], "unsupported_response_type"),
        (["scope": "profile"], "invalid_scope"),
        (["response_type": ""], "invalid_request"), (["code_challenge": ""], "invalid_request"),
        (["code_challenge_method": "plain"], "invalid_request"),
        (["code_challenge_method": ""], "invalid_request"),
        (["code_challenge": "short"], "invalid_request"),
        (["prompt": "none"], "login_required"), (["request": "e30.e30."], "request_not_supported"),
        (["request_uri": "https://app.example.com/r"], "request_uri_not_supported"),
        (["registration": "{}"], "registration_not_supported"),
        (["response_mode": "fragment"], "invalid_request"),
        (["id_token_hint": "x.y.z"], "invalid_request"),
    ])
    func `an invalid request of a known client redirects with an error`(
        change: [String: String], error: String
    ) async throws {
        try await TestServer.run { server in
            let answer = try await server.send(.get, AuthorizationParameters(more: change).path)
            #expect(answer.status == 303)
            #expect(try answer.redirectParameter("error") == error)
            #expect(try answer.redirectParameter("state") == "state-1")
            #expect(try answer.redirectParameter("iss") == server.origin)
        }
    }

    @Test(arguments: [
        ("https://authgear.com/login_hint?x=1", "invalid login_hint type: "),
        ("https://authgear.com/login_hint?type=elf", "invalid login_hint type: elf"),
    ])
    func `an unknown login hint gets the error of deployed Authgear servers`(
        hint: String, text: String
    ) async throws {
        try await TestServer.run { server in
            let answer = try await server.send(
                .get, AuthorizationParameters(more: ["login_hint": hint]).path)
            #expect(try answer.redirectParameter("error") == "invalid_request")
            #expect(try answer.redirectParameter("error_description") == text)
        }
    }

    @Test func `a pinned login refuses other users`() async throws {
        try await TestServer.run { server in
            let idToken = try #require(try await server.login("alice").id)
            let hint = "https://authgear.com/login_hint?type=user_id&user_id=\(server.alice.id)"
            for more in [
                ["login_hint": hint], ["id_token_hint": idToken],
                ["login_hint": hint, "id_token_hint": idToken],
            ] {
                let request = AuthorizationParameters(more: more)
                let browser = TestBrowser(server: server)
                let refused = try await browser.login(request, username: "bob")
                #expect(refused.status == 403)
                #expect(refused.body.contains("set up for another account"))
                #expect(browser.cookies[TestBrowser.sessionCookie] == nil)
                #expect(try await browser.login(request, username: "alice").status == 303)
            }
            // Two contradictory pins.
            let other = "https://authgear.com/login_hint?type=user_id&user_id=\(server.bob.id)"
            let torn = try await server.send(
                .get,
                AuthorizationParameters(more: ["login_hint": other, "id_token_hint": idToken]).path)
            #expect(try torn.redirectParameter("error_description") == "invalid id_token_hint")
        }
    }

    /// Otherwise a link, opened in the user's browser, would send a code to any program that
    /// listens on that port, and `max_age` and `prompt=login` would have to be compared with the
    /// session.
    @Test(arguments: [[:], ["prompt": "login"], ["max_age": "3600"]])
    func `each request of an app needs a login, and none begins a session of the browser`(
        more: [String: String]
    ) async throws {
        try await TestServer.run { server in
            let browser = TestBrowser(server: server)
            _ = try await browser.loginToSettings("alice")
            let request = AuthorizationParameters(more: more)
            let page = try await browser.get(request.path)
            #expect(page.status == 200 && page.headers[.location] == nil)
            let silent = AuthorizationParameters(more: more.merging(["prompt": "none"]) { $1 })
            #expect(
                try await browser.get(silent.path).redirectParameter("error") == "login_required")
            let other = TestBrowser(server: server)
            #expect(try await other.login(request, username: "alice").status == 303)
            #expect(other.cookies[TestBrowser.sessionCookie] == nil)
        }
    }

    @Test func `over https the cookies belong to this host only`() async throws {
        var configuration = TestServer.configuration
        configuration.publicOrigin = "https://id.example.com"
        let services = try await IdentityServices(
            configuration, database: await TestDatabase.open(), hasher: PasswordHasher(),
            signingKeyCipher: TestDatabase.cipher())
        let cookie = services.cookie(.session, "mine").description
        #expect(cookie.hasPrefix("__Host-\(TestBrowser.sessionCookie)=mine; "))
        #expect(
            cookie.contains("Secure") && cookie.contains("Path=/") && !cookie.contains("Domain"))
        // Another host of the domain can only set the name without the prefix.
        for (name, session) in [
            (TestBrowser.sessionCookie, nil), ("__Host-\(TestBrowser.sessionCookie)", "mine"),
        ] {
            let head = HTTPRequest(
                method: .get, scheme: nil, authority: nil, path: "/",
                headerFields: [.cookie: "\(name)=mine"])
            let request = Request(head: head, body: RequestBody(buffer: ByteBuffer()))
            #expect(services.cookies(of: request).session == session)
        }
    }

    @Test func `a login form from another site is refused`() async throws {
        try await TestServer.run { server in
            let browser = TestBrowser(server: server)
            _ = try await browser.get(AuthorizationParameters().path)
            let otherBrowser = TestBrowser(server: server)
            let foreign = try await otherBrowser.get(AuthorizationParameters().path).hiddenField(
                "csrf_token")
            for token in ["", foreign] {
                let answer = try await browser.post(
                    AuthorizationParameters().path,
                    [
                        "csrf_token": token, "username": "alice", "password": TestServer.password,
                        "action": "login",
                    ])
                #expect(answer.status == 403)
                #expect(browser.cookies[TestBrowser.sessionCookie] == nil)
            }
        }
    }

    @Test func `a login renames the session, and a logout ends it`() async throws {
        try await TestServer.run { server in
            let browser = TestBrowser(server: server)
            browser.cookies[TestBrowser.sessionCookie] = "planted"
            let answer = try await browser.loginToSettings("alice")
            let cookie = try #require(
                answer.headers[values: .setCookie].first { $0.hasPrefix(TestBrowser.sessionCookie) }
            )
            #expect(
                cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax")
                    && cookie.contains("Path=/"))
            let session = try #require(browser.cookies[TestBrowser.sessionCookie])
            #expect(session != "planted")
            _ = try await browser.post(
                "/logout", ["csrf_token": browser.get("/settings").hiddenField("csrf_token")])
            browser.cookies[TestBrowser.sessionCookie] = session
            #expect(try await browser.get("/settings").headers[.location] == "/login")
        }
    }

    @Test func `pages forbid scripts, frames and storing`() async throws {
        try await TestServer.run { server in
            let page = try await server.send(.get, AuthorizationParameters().path)
            let policy = try #require(page.headers[.contentSecurityPolicy])
            #expect(policy.contains("default-src 'none'"))
            #expect(policy.contains("frame-ancestors 'none'"))
            #expect(policy.contains("form-action 'self' http://127.0.0.1:4711"))
            #expect(page.headers[.cacheControl] == "no-store")
            #expect(page.headers[.xContentTypeOptions] == "nosniff")
            #expect(!page.body.contains("<script"))
        }
    }
}
