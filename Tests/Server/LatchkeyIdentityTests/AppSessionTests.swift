import FoundationEssentials
import HTTPTypes
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

/// Settings pages that an app opens for its user.
@Suite("App sessions") struct AppSessionTests {
    private static let endpoint = "/oauth2/app_session_token"

    private func issue(_ refreshToken: String?, on server: TestServer) async throws -> Answer {
        let token = try #require(refreshToken)
        return try await server.post(Self.endpoint, json: #"{"refresh_token":"\#(token)"}"#)
    }

    /// The address of a page with a new token, or with `token`.
    private func address(
        _ tokens: Tokens, token: String? = nil, changes: [String: String] = [:],
        on server: TestServer
    ) async throws -> String {
        var token = token
        if token == nil {
            let answer = try await issue(tokens.refresh, on: server).success()
            token = answer["result"]?["app_session_token"]?.string
            #expect(answer["result"]?["expire_at"]?.string != nil)
        }
        let hint = try #require(token).isEmpty ? "" : "&app_session_token=\(token ?? "")"
        return "/oauth2/authorize?"
            + TestServer.encode(
                [
                    "response_type": "none", "client_id": "app", "prompt": "none",
                    "redirect_uri": "\(server.origin)/settings?ui_locales=de",
                    "scope": TestServer.fullScope,
                    "login_hint":
                        "https://authgear.com/login_hint?type=app_session_token\(hint)",
                ].merging(changes) { $1 })
    }

    @Test func `the page opens logged in once, and the session ends with the app's`() async throws {
        try await TestServer.run { server in
            let tokens = try await server.login()
            let address = try await address(tokens, on: server)
            let browser = TestBrowser(server: server)
            let answer = try await browser.get(address)
            #expect(answer.status == 303)
            #expect(answer.headers[.location] == "/settings")
            #expect(try await browser.get("/settings").body.contains("<strong>alice</strong>"))
            #expect(try await TestBrowser(server: server).get(address).status == 400)
            _ = try await server.post(
                "/oauth2/revoke", form: ["token": #require(tokens.refresh)])
            #expect(try await browser.get("/settings").headers[.location] == "/login")
        }
    }

    /// The data of a revoked enrolment is lost, and an app's session proves a refresh token only.
    @Test func `the browser's session revokes no enrolment, and one after a login does`()
        async throws
    {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            let (opened, loggedIn) = (TestBrowser(server: server), TestBrowser(server: server))
            _ = try await opened.get(address(server.login(), on: server))
            _ = try await loggedIn.loginToSettings("alice")
            for (browser, status) in [(opened, 403), (loggedIn, 303)] {
                let page = try await browser.get("/settings/locker")
                let answer = try await browser.post(
                    "/settings/locker",
                    [
                        "csrf_token": page.hiddenField("csrf_token"), "x_action": "revoke",
                        "x_device_id": device.id,
                    ])
                #expect(answer.status == status)
            }
        }
    }

    /// An app's session may use the form of devices, and could so delete an enrolment.
    @Test func `the form of a list revokes no device of the other list`() async throws {
        try await TestServer.run { server in
            let services = server.services
            let enrolment = try await server.enrolledDevice()
            try await server.setUp(TestDevice(), bearer: server.login().access).success()
            let devices = try await services.devices.devices(of: server.alice.id)
            let (opened, loggedIn) = (TestBrowser(server: server), TestBrowser(server: server))
            _ = try await opened.get(address(server.login(), on: server))
            _ = try await loggedIn.loginToSettings("alice")
            for (browser, path, action, member, id) in [
                (opened, "/settings/biometric", "remove", "x_device_id", enrolment.id),
                (
                    loggedIn, "/settings/locker", "revoke", "x_device_id",
                    try #require(devices.first).id
                ),
            ] {
                let token = try await browser.get(path).hiddenField("csrf_token")
                let form = ["csrf_token": token, "x_action": action, member: id]
                #expect(try await browser.post(path, form).status == 404)
            }
            #expect(try await services.devices.devices(of: server.alice.id) == devices)
            let enrolments = try await services.locker.registry.enrolments(of: server.alice.id)
            #expect(enrolments.map(\.id) == [enrolment.id])
        }
    }

    @Test func `it replaces another user's session in the browser`() async throws {
        try await TestServer.run { server in
            let browser = TestBrowser(server: server)
            _ = try await browser.loginToSettings("bob")
            _ = try await browser.get(address(server.login(), on: server))
            #expect(try await browser.get("/settings").body.contains("<strong>alice</strong>"))
        }
    }

    @Test(arguments: [
        ["redirect_uri": "https://evil.example/settings"], ["redirect_uri": "/settings"],
        ["redirect_uri": "//evil.example/settings"], ["client_id": "other"], ["client_id": "none"],
        ["login_hint": "alice"],
        ["login_hint": "https://authgear.com/login_hint?type=login_id&username=alice"],
    ])
    func `a request with another value opens no page`(changes: [String: String]) async throws {
        try await TestServer.run {
            $0.clients.append(ClientConfiguration(id: "other"))
        } body: { server in
            let browser = TestBrowser(server: server)
            let address = try await address(server.login(), changes: changes, on: server)
            let answer = try await browser.get(address)
            #expect(answer.status == 400)
            #expect(answer.headers[.location] == nil)
            #expect(browser.cookies[TestBrowser.sessionCookie] == nil)
        }
    }

    @Test func `another address of this server, and an old token, open nothing`()
        async throws
    {
        try await TestServer.run { server in
            let tokens = try await server.login()
            let path = "/oauth2/userinfo"
            for address in [
                try await address(
                    tokens, changes: ["redirect_uri": server.origin + path], on: server),
                try await address(tokens, token: "unknown", on: server),
                try await address(tokens, token: "", on: server),
            ] {
                #expect(try await TestBrowser(server: server).get(address).status == 400)
            }
            let old = try await address(tokens, on: server)
            server.time.advance(by: AppSessionStore.lifetime)
            #expect(try await TestBrowser(server: server).get(old).status == 400)
        }
    }

    /// Otherwise a site could log the browser in as the site's own user.
    @Test(arguments: ["cross-site", "same-site", "same-origin"])
    func `a link on a site opens no page`(site: String) async throws {
        try await TestServer.run { server in
            let address = try await address(server.login(), on: server)
            let name = try #require(HTTPField.Name("Sec-Fetch-Site"))
            let refused = try await server.send(.get, address, headers: [name: site])
            #expect(refused.status == 400)
            #expect(refused.headers[.setCookie] == nil)
            #expect(try await server.send(.get, address, headers: [name: "none"]).status == 303)
        }
    }

    @Test func `only a valid refresh token with full access gets a token`() async throws {
        try await TestServer.run { server in
            let tokens = try await server.login()
            let narrow = try await server.login("bob", scope: "openid offline_access")
            let device = try await server.enrolledDevice()
            let easy = try Tokens(
                await server.easyAccess(device, form: ["scope": TestServer.fullScope]).success())
            for token in [tokens.access, narrow.refresh, easy.refresh, "x"] {
                let answer = try await issue(token, on: server)
                #expect(answer.status == 403)
                #expect(try answer.json["error"]?["reason"] == "InvalidGrant")
            }
            for body in ["{}", #"{"refresh_token":1}"#] {
                #expect(try await server.post(Self.endpoint, json: body).status == 400)
            }
            // A replaced token is stolen: the session ends.
            let first = try #require(tokens.refresh)
            _ = try await server.refresh(first).success()
            #expect(try await issue(first, on: server).status == 403)
            #expect(try await server.userInfo(tokens.access).status == 401)
        }
    }
}
