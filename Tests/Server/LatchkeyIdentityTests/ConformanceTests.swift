import FoundationEssentials
import HTTPTypes
import Latchkey
import LatchkeyJOSE
import Testing

@testable import latchkey_identity

/// Requests of other clients than this package's: what OpenID Connect Core 1.0, RFC 6749,
/// 6750, 7009 and 8414 require of a server.
@Suite("OpenID Connect and OAuth") struct ConformanceTests {
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
