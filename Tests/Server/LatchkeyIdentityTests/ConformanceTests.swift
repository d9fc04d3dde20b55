import FoundationEssentials
import HTTPTypes
import Latchkey
import LatchkeyJOSE
import Testing

@testable import latchkey_identity

/// Requests of other clients than this package's: what OpenID Connect Core 1.0, RP-Initiated Logout
/// 1.0, RFC 6749, 6750, 7009 and 8414 require of a server.
@Suite("OpenID Connect and OAuth") struct ConformanceTests {
    private static func form(_ path: String) -> String {
        String(path.split(separator: "?", maxSplits: 1)[1])
    }

    private static let formType: HTTPFields = [
        .contentType: "application/x-www-form-urlencoded"
    ]

    /// Core section 3.1.2.1.
    @Test func `an authorization request by POST leads to the same login as by GET`() async throws {
        try await TestServer.run { server in
            let request = AuthorizationParameters(redirectURI: TestServer.siteRedirectURI)
            let browser = TestBrowser(server: server)
            let posted = try await server.send(
                .post, "/oauth2/authorize", headers: Self.formType, body: Self.form(request.path))
            #expect(posted.status == 303)
            let location = try #require(posted.headers[.location])
            let page = try await browser.get(location)
            let callback = try await browser.post(
                location,
                [
                    "csrf_token": page.hiddenField("csrf_token"), "username": "alice",
                    "password": TestServer.password,
                ])
            let code = try #require(try callback.redirectParameter("code"))
            #expect(try callback.redirectParameter("state") == "state-1")
            let tokens = try Tokens(await server.exchange(code: code, request).success())
            #expect(try tokens.claims["nonce"] == .string("nonce-1"))
            // A page of another site posts without this server's cookies; the GET has them.
            #expect(try await browser.get(location).redirectParameter("code") != nil)
        }
    }

    @Test func `a request by POST gets the errors of a request by GET`() async throws {
        try await TestServer.run { server in
            let browser = TestBrowser(server: server)
            for (more, error) in [
                ("&prompt=none", "login_required"), ("&nonce=2", "invalid_request"),
            ] {
                let posted = try await server.send(
                    .post, "/oauth2/authorize", headers: Self.formType,
                    body: Self.form(AuthorizationParameters().path) + more)
                let answer = try await browser.get(#require(posted.headers[.location]))
                #expect(try answer.redirectParameter("error") == error)
            }
            let unknown = try await server.post("/oauth2/authorize", form: ["client_id": "x"])
            let page = try await browser.get(#require(unknown.headers[.location]))
            #expect(page.status == 400 && page.body.contains("which is not registered"))
            let odd = try await server.send(.post, "/oauth2/authorize", body: "{}")
            #expect(odd.status == 400 && odd.headers[.location] == nil)
        }
    }

    @Test func `a request by POST cannot add a header or leave the server`() async throws {
        try await TestServer.run { server in
            let answer = try await server.send(
                .post, "/oauth2/authorize", headers: Self.formType,
                body: "state=%0D%0ASet-Cookie:%20a=b&x=//evil.example/%23")
            #expect(answer.headers[.setCookie] == nil)
            #expect(
                answer.headers[.location]
                    == "/oauth2/authorize?state=%0D%0ASet-Cookie%3A%20a%3Db&x=%2F%2Fevil.example%2F%23"
            )
        }
    }

    /// RP-Initiated Logout section 2.
    @Test func `a logout request by POST leads to the same logout as by GET`() async throws {
        try await TestServer.run {
            $0.clients[0].postLogoutRedirectURIs = ["http://127.0.0.1/bye"]
            $0.clients.append(
                ClientConfiguration(
                    id: "other", postLogoutRedirectURIs: ["http://127.0.0.1/other"]))
        } body: { server in
            let hint = try #require(try await server.login().id)
            let browser = TestBrowser(server: server)
            _ = try await browser.loginToSettings("alice")
            let mixed = try await server.post(
                "/oauth2/end_session",
                form: [
                    "id_token_hint": hint, "client_id": "other",
                    "post_logout_redirect_uri": "http://127.0.0.1/other",
                ])
            #expect(try await browser.get(#require(mixed.headers[.location])).status == 400)
            #expect(try await browser.get("/settings").status == 200)
            let posted = try await server.post(
                "/oauth2/end_session",
                form: [
                    "id_token_hint": hint, "post_logout_redirect_uri": "http://127.0.0.1/bye",
                    "state": "s",
                ])
            let ended = try await browser.get(#require(posted.headers[.location]))
            #expect(ended.headers[.location] == "http://127.0.0.1/bye?state=s")
            #expect(try await browser.get("/settings").headers[.location] == "/login")
        }
    }

    /// Core section 3.1.2.1, and RFC 6749 section 5.1: a response with other scopes names them.
    @Test func `unknown scopes are ignored, and the response names the granted ones`() async throws
    {
        try await TestServer.run { server in
            let request = AuthorizationParameters(scope: "openid phone planet profile")
            let callback = try await TestBrowser(server: server).login(request, username: "alice")
            let code = try #require(try callback.redirectParameter("code"))
            let json = try await server.exchange(code: code, request).success()
            #expect(json["scope"] == "openid profile")
        }
    }

    @Test func `a login hint can be a user name`() async throws {
        try await TestServer.run { server in
            let request = AuthorizationParameters(more: ["login_hint": "bob\"><script>"])
            let page = try await server.send(.get, request.path)
            #expect(page.status == 200)
            #expect(page.body.contains("value=\"bob&quot;&gt;&lt;script&gt;\""))
        }
    }

    /// RFC 6750 section 3.
    @Test func `a request without a token gets a challenge without an error code`() async throws {
        try await TestServer.run { server in
            let realm = "Bearer realm=\"latchkey-identity\""
            for headers: HTTPFields in [
                [:], [.authorization: "Bearer "], [.authorization: "Basic YTpi"],
            ] {
                let answer = try await server.send(.get, "/oauth2/userinfo", headers: headers)
                #expect(answer.status == 401)
                #expect(answer.headers[.wwwAuthenticate] == realm)
            }
            let path = "/api/identity/biometric/remove"
            let removal = try await server.post(path, json: #"{"kid":"12345678"}"#)
            #expect(removal.headers[.wwwAuthenticate] == realm)
            let invalid = try await server.post(
                path, json: #"{"kid":"12345678"}"#, bearer: "unknown")
            #expect(
                invalid.headers[.wwwAuthenticate]?.hasPrefix("Bearer error=\"invalid_token\"")
                    == true)
        }
    }

    /// RFC 6749 section 5.2. A probe with Basic must not use the code.
    @Test(arguments: ["Basic YXBwOg==", "basic bm9ib2R5OnNlY3JldA==", "Basic "])
    func `client authentication with Basic fails with 401 and keeps the code`(header: String)
        async throws
    {
        try await TestServer.run { server in
            let request = AuthorizationParameters()
            let callback = try await TestBrowser(server: server).login(request, username: "alice")
            let code = try #require(try callback.redirectParameter("code"))
            var headers = Self.formType
            headers[.authorization] = header
            for (path, form) in [
                ("/oauth2/token", "client_id=app&grant_type=authorization_code&code=\(code)"),
                ("/oauth2/token", "grant_type=authorization_code&code=\(code)"),
                ("/oauth2/revoke", "token=x&client_id=app"),
            ] {
                let answer = try await server.send(.post, path, headers: headers, body: form)
                try answer.expectRefusal(
                    401, "invalid_client", "clients of this server have no secret")
                #expect(
                    answer.headers[.wwwAuthenticate] == "Basic realm=\"latchkey-identity\"")
            }
            try await server.exchange(code: code, request).success()
        }
    }

    /// RFC 7009 section 2.1.
    @Test func `a client revokes only its own tokens`() async throws {
        try await TestServer.run {
            $0.clients.append(ClientConfiguration(id: "other", redirectURIs: []))
        } body: { server in
            let tokens = try await server.login()
            let refresh = try #require(tokens.refresh)
            for token in [tokens.access, refresh] {
                try await server.post(
                    "/oauth2/revoke", form: ["token": token, "client_id": "other"]
                ).expectRefusal(400, "invalid_grant", "the token was issued to another client")
            }
            try await server.post(
                "/oauth2/revoke", form: ["token": refresh, "client_id": "nobody"]
            ).expectRefusal(400, "invalid_client", "invalid client ID")
            try await server.post("/oauth2/revoke", form: ["token": ""]).expectRefusal(
                400, "invalid_request", "token is required")
            try await server.userInfo(tokens.access).success()
            try await server.post(
                "/oauth2/revoke", form: ["token": refresh, "client_id": "app"]
            ).success()
            #expect(try await server.userInfo(tokens.access).status == 401)
        }
    }

    /// RFC 6749 section 5.2: other characters, for example of the request, must not be sent.
    @Test func `descriptions of errors have only the permitted characters`() async throws {
        try await TestServer.run { server in
            let request = AuthorizationParameters(more: [
                "login_hint": "https://authgear.com/login_hint?type=\"é\\\n"
            ])
            let answer = try await server.send(.get, request.path)
            #expect(
                try answer.redirectParameter("error_description")
                    == "invalid login_hint type: '???")
        }
    }

    /// RFC 9110 section 9.1.
    @Test(arguments: [
        "/.well-known/openid-configuration", "/oauth2/jwks", "/login",
        AuthorizationParameters().path,
    ])
    func `HEAD is GET without a body`(path: String) async throws {
        try await TestServer.run { server in
            let get = try await server.send(.get, path)
            let head = try await server.send(.head, path)
            #expect(head.status == 200 && head.body.isEmpty)
            #expect(head.headers[.contentType] == get.headers[.contentType])
        }
    }

    /// OpenID Connect Discovery section 3 and RFC 8414 section 2.
    @Test func `the metadata denies what clients assume without a member`() async throws {
        try await TestServer.run { server in
            let document = try await server.send(.get, "/.well-known/openid-configuration")
                .success()
            #expect(document["request_uri_parameter_supported"] == false)
            for endpoint in ["token", "revocation"] {
                #expect(document["\(endpoint)_endpoint_auth_methods_supported"] == ["none"])
            }
        }
    }
}
