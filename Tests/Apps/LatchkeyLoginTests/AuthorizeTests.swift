import Foundation
import Latchkey
import LatchkeyLogin
import LatchkeyOAuth
import LatchkeyTesting
import Testing

@Suite(.softwareTPM) struct AuthorizeTests {
    @Test(arguments: [TokenSigner.Algorithm.es256, .rs256])
    func `an ID token is verified against the server's keys`(algorithm: TokenSigner.Algorithm)
        async throws
    {
        try await Bench.with(.init(algorithm: algorithm)) { bench in
            let another = try await bench.start()
            #expect(try await another.authorize().userInfo.userID == "user-a")
        }
    }

    @Test func `a token for another login or from another issuer is refused and revoked`()
        async throws
    {
        for manner in [FakeIdentity.Manner(nonce: "other"), .init(issuer: "https://evil.test")] {
            try await Bench.with(manner) { bench in
                let container = try await bench.start()
                await #expect(throws: login(.invalidToken)) { try await container.authorize() }
                #expect(try await container.sessionState == .noSession)
                #expect(try await container.lastUserID == nil)
                #expect(await bench.identity.refreshTokens.isEmpty)
            }
        }
    }

    @Test func `a wrong clock is reported`() async throws {
        try await Bench.with { bench in
            let container = try await bench.start(now: { Date().addingTimeInterval(-3_600) })
            await #expect(throws: login(.clockSkew)) { try await container.authorize() }
        }
    }

    @Test func `while biometric login is enabled another user is refused and nothing changes`()
        async throws
    {
        try await Bench.with { bench in
            let container = try await bench.start()
            try await container.authorize()
            let key = try await container.enableBiometric()
            let tokens = await Set(bench.identity.refreshTokens.keys)
            await bench.identity.setVisitor("user-b")
            await #expect(throws: login(.userMismatch)) { try await container.authorize() }
            #expect(await Set(bench.identity.refreshTokens.keys) == tokens)
            #expect(try await container.lastUserID == "user-a")
            #expect(try await container.fetchUserInfo().userID == "user-a")
            #expect(try await container.listBiometricKeys().map(\.id) == [key.id])
        }
    }

    @Test func `the same user can log in in the browser and keeps the key`() async throws {
        try await Bench.with { bench in
            let container = try await bench.start()
            try await container.authorize()
            let key = try await container.enableBiometric()
            try await container.authorize()
            #expect(try await container.authenticateBiometric().keyID == key.id)
        }
    }

    @Test func `a request to a server that takes a user id names the user`() async throws {
        try await Bench.with(.init(takesUserIDHint: true)) { bench in
            let container = try await bench.start()
            try await container.authorize()
            try await container.enableBiometric()
            try await container.logout(keepBiometric: true)
            try await container.authorize()
            let page = try #require(bench.browser.visited.last)
            #expect(
                page["login_hint"] == "https://authgear.com/login_hint?type=user_id&user_id=user-a")
            #expect(page["id_token_hint"] == nil)
        }
    }

    @Test func `a deployed server gets an ID token as the hint, and never a login_hint`()
        async throws
    {
        try await Bench.with { bench in
            let container = try await bench.start()
            try await container.authorize()
            try await container.enableBiometric()
            try await bench.start().authorize()
            let page = try #require(bench.browser.visited.last)
            #expect(page["login_hint"] == nil)
            #expect(page["id_token_hint"]?.split(separator: ".").count == 3)
            try await container.logout(keepBiometric: true)
            try await container.authorize()
            #expect(bench.browser.visited.last?["id_token_hint"] == page["id_token_hint"])
            try await container.logout()
            try await container.authorize()
            #expect(bench.browser.visited.last?["id_token_hint"] == nil)
        }
    }

    @Test func `a cancelled login is cancelled`() async throws {
        try await Bench.with { bench in
            let browser = AnsweringBrowser { "error=cancel&state=\($0["state"] ?? "")" }
            let container = try await bench.start(browser: browser)
            await #expect(throws: login(.cancelled)) { try await container.authorize() }
        }
    }

    @Test func `an error of the server is reported in its words`() async throws {
        try await Bench.with { bench in
            let browser = AnsweringBrowser {
                "error=invalid_scope&error_description=must+request%20%27openid%27&state=\($0["state"] ?? "")"
            }
            let container = try await bench.start(browser: browser)
            let error = await #expect(throws: LoginError.self) { try await container.authorize() }
            #expect(
                error?.oauthError
                    == OAuthError(error: "invalid_scope", description: "must request 'openid'"))
        }
    }

    @Test func `an answer with another state does not end the login`() async throws {
        try await Bench.with { bench in
            let browser = AnsweringBrowser { _ in "code=stolen&state=guessed" }
            let container = try await bench.start(browser: browser)
            let attempt = Task { try await container.authorize() }
            await browser.opened()
            #expect(browser.statuses == [400])
            // It still waits, until it is given up.
            attempt.cancel()
            await #expect(throws: login(.cancelled)) { try await attempt.value }
        }
    }

    @Test func `a cancelled task cancels the login`() async throws {
        try await Bench.with { bench in
            let browser = AnsweringBrowser { _ in nil }
            let container = try await bench.start(browser: browser)
            let attempt = Task { try await container.authorize() }
            await browser.opened()
            attempt.cancel()
            await #expect(throws: login(.cancelled)) { try await attempt.value }
        }
    }

    @Test func `prompt and languages are part of the request`() async throws {
        try await Bench.with { bench in
            let options = AuthorizationOptions(
                prompt: [.login, .selectAccount], uiLocales: ["de-AT", "en"])
            try await bench.start().authorize(options)
            let page = try #require(bench.browser.visited.last)
            #expect(page["prompt"] == "login select_account")
            #expect(page["ui_locales"] == "de-AT en")
        }
    }

    @Test func `the name, the page and the colours are part of the request`() async throws {
        try await Bench.with(.init(takesUserIDHint: true)) { bench in
            let options = AuthorizationOptions(
                loginHint: .email("a+b@example.com"), page: .signup, colorScheme: .dark)
            let container = try await bench.start()
            try await container.authorize(options)
            let prefix = "https://authgear.com/login_hint?type="
            let page = try #require(bench.browser.visited.last)
            #expect(page["login_hint"] == prefix + "login_id&email=a%2Bb%40example.com")
            #expect(page["x_page"] == "signup")
            #expect(page["x_color_scheme"] == "dark")
            // A request has one login_hint: the ID token names the owner of the key.
            try await container.enableBiometric()
            try await container.authorize(options)
            #expect(bench.browser.visited.last?["login_hint"] == page["login_hint"])
            #expect(bench.browser.visited.last?["id_token_hint"] != nil)
            try await container.authorize(.init(loginHint: nil))
            #expect(bench.browser.visited.last?["login_hint"] == prefix + "user_id&user_id=user-a")
        }
    }

    @Test(arguments: [
        "http://identity.test", "ftp://identity.test", "identity.test", "https://u:p@identity.test",
        "",
    ])
    func `an address that is neither https nor local is refused`(endpoint: String) async throws {
        try await Bench.with { bench in
            await #expect(throws: login(.invalidInput)) {
                _ = try await bench.start(endpoint: endpoint)
            }
        }
    }

    @Test(arguments: [
        ("https://other.test", "https://identity.test/oauth2/token"),
        ("https://identity.test", "http://identity.test/oauth2/token"),
        ("https://identity.test", "//identity.test/oauth2/token"),
    ])
    func `a server with another issuer, or an endpoint without TLS, is refused`(
        issuer: String, token: String
    ) async throws {
        try await Bench.with { bench in
            let base = "https://identity.test/oauth2"
            let document = """
                {"issuer":"\(issuer)","authorization_endpoint":"\(base)/authorize","token_endpoint":"\(token)",\
                "userinfo_endpoint":"\(base)/userinfo","revocation_endpoint":"\(base)/revoke","jwks_uri":"\(base)/jwks"}
                """
            let container = try await bench.start(transport: RecordingTransport([.json(document)]))
            await #expect(throws: login(.invalidResponse)) { try await container.authorize() }
            #expect(bench.browser.visited.isEmpty)
        }
    }
}
