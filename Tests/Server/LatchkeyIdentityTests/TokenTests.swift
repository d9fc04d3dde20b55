import FoundationEssentials
import HTTPTypes
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

@Suite("Tokens") struct TokenTests {
    /// The vectors of Authgear's tests and of RFC 7636 appendix B.
    @Test(arguments: [
        (
            "the-quick-brown-fox-jumps-over-the-lazy-dog",
            "lSqEXx4ypW-y7Dj_NrquA6XliP_YgrqI9C1nkbNMIUs"
        ),
        (
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQ",
            "RqIZl4LIgn8KxW9QO-nTnv7pf0CnNrksx9fF-CXP2FE"
        ),
        (
            "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
            "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
        ),
    ])
    func `PKCE vectors`(verifier: String, challenge: String) {
        #expect(ProofKey.challenge(verifier) == challenge)
        #expect(ProofKey.isVerifier(verifier))
        #expect(ProofKey.isChallenge(challenge))
    }

    @Test func `PKCE verifiers have 43 to 128 unreserved characters`() {
        #expect(!ProofKey.isVerifier(String(repeating: "a", count: 42)))
        #expect(ProofKey.isVerifier(String(repeating: "a", count: 128)))
        #expect(!ProofKey.isVerifier(String(repeating: "a", count: 129)))
        #expect(!ProofKey.isVerifier(String(repeating: "a", count: 42) + "+"))
    }

    private func code(_ server: TestServer, _ request: AuthorizationParameters) async throws
        -> String
    {
        try #require(
            try await TestBrowser(server: server).login(request, username: "alice")
                .redirectParameter("code"))
    }

    @Test func `a code is valid once; a second use revokes the tokens`() async throws {
        try await TestServer.run { server in
            let request = AuthorizationParameters()
            let code = try await code(server, request)
            let tokens = try Tokens(await server.exchange(code: code, request).success())
            try await server.exchange(code: code, request)
                .expectRefusal(400, "invalid_grant", "invalid authorization code")
            #expect(try await server.userInfo(tokens.access).status == 401)
            #expect(try await server.refresh(#require(tokens.refresh)).status == 400)
        }
    }

    @Test func `a code is valid for a minute`() async throws {
        try await TestServer.run { server in
            let request = AuthorizationParameters()
            let codes = [try await code(server, request), try await code(server, request)]
            server.time.advance(by: 59)
            try await server.exchange(code: codes[0], request).success()
            server.time.advance(by: 1)
            try await server.exchange(code: codes[1], request)
                .expectRefusal(400, "invalid_grant", "invalid authorization code")
        }
    }

    @Test func `a code requires its verifier, its redirect URI and its client`() async throws {
        try await TestServer.run {
            $0.clients.append(
                ClientConfiguration(id: "other", redirectURIs: ["http://127.0.0.1/callback"]))
        } body: { server in
            let request = AuthorizationParameters()
            let code = try await code(server, request)
            try await server.exchange(
                code: code, request,
                overriding: ["code_verifier": "the-quick-brown-fox-jumps-over-the-lazy-dog"]
            ).expectRefusal(400, "invalid_grant", "invalid authorization code")
            try await server.exchange(
                code: code, request, overriding: ["redirect_uri": "http://127.0.0.1:1/callback"]
            )
            .expectRefusal(400, "invalid_grant", "invalid redirect URI")
            try await server.exchange(code: code, request, overriding: ["client_id": "other"])
                .expectRefusal(400, "invalid_grant", "invalid authorization code")
            try await server.exchange(code: code, request).success()
        }
    }

    @Test func `without offline_access there is no refresh token`() async throws {
        try await TestServer.run { server in
            let tokens = try await server.login(scope: "openid")
            #expect(tokens.refresh == nil)
            try await server.userInfo(tokens.access).success()
        }
    }

    @Test func `a refresh replaces the refresh token; using the old one revokes the grant`()
        async throws
    {
        try await TestServer.run { server in
            let first = try await server.login()
            let second = try Tokens(await server.refresh(#require(first.refresh)).success())
            #expect(second.refresh != first.refresh)
            #expect(second.refresh?.prefix(36) == first.refresh?.prefix(36))
            try await server.userInfo(second.access).success()
            try await server.refresh(#require(first.refresh))
                .expectRefusal(400, "invalid_grant", "invalid refresh token")
            try await server.refresh(#require(second.refresh))
                .expectRefusal(400, "invalid_grant", "invalid refresh token")
            #expect(try await server.userInfo(second.access).status == 401)
        }
    }

    @Test func `of two concurrent refreshes with one token, at most one succeeds`() async throws {
        try await TestServer.run { server in
            let refresh = try #require(try await server.login().refresh)
            let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 1...4 { group.addTask { try await server.refresh(refresh).status } }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(statuses.filter { $0 == 200 }.count <= 1)
            #expect(statuses.filter { $0 == 400 }.count >= 3)
        }
    }

    @Test func `a refresh token of another client is refused`() async throws {
        try await TestServer.run {
            $0.clients.append(ClientConfiguration(id: "other", redirectURIs: []))
        } body: { server in
            let refresh = try #require(try await server.login().refresh)
            try await server.refresh(refresh, client: "other")
                .expectRefusal(400, "invalid_grant", "client id doesn't match the refresh token")
            try await server.refresh(refresh).success()
        }
    }

    @Test func `tokens expire`() async throws {
        try await TestServer.run { server in
            let tokens = try await server.login()
            server.time.advance(by: 1_799)
            try await server.userInfo(tokens.access).success()
            server.time.advance(by: 1)
            #expect(try await server.userInfo(tokens.access).status == 401)
            server.time.advance(by: 30 * 86_400)
            try await server.refresh(#require(tokens.refresh))
                .expectRefusal(400, "invalid_grant", "invalid refresh token")
        }
    }

    @Test func `revocation ends a session and answers 200, also for an unknown token`() async throws
    {
        try await TestServer.run { server in
            let (one, two) = (try await server.login(), try await server.login())
            for token in ["unknown", try #require(one.refresh), one.access] {
                #expect(
                    try await server.post("/oauth2/revoke", form: ["token": token]).status == 200)
            }
            #expect(try await server.userInfo(one.access).status == 401)
            #expect(try await server.refresh(#require(one.refresh)).status == 400)
            try await server.userInfo(two.access).success()
            #expect(
                try await server.post("/oauth2/revoke", form: ["token": two.access]).status == 200)
            #expect(try await server.userInfo(two.access).status == 401)
            try await server.refresh(#require(two.refresh)).success()
        }
    }

    @Test func `user info without a session gets the 401 of deployed Authgear servers`()
        async throws
    {
        try await TestServer.run { server in
            let answer = try await server.userInfo("unknown")
            try answer.expectRefusal(401, "invalid_grant", "invalid session")
            #expect(
                answer.headers[.wwwAuthenticate]
                    == "Bearer error=\"invalid_token\", error_description=\"invalid session\"")
            let json = try await server.userInfo(server.login().access).success()
            for name in ["is_anonymous", "is_verified", "can_reauthenticate"] {
                #expect(json["https://authgear.com/claims/user/\(name)"] != nil)
            }
            #expect(json["custom_attributes"] == .object([:]))
            #expect(json["preferred_username"] == .string("alice"))
        }
    }

    @Test func `an ID token can be renewed within a session`() async throws {
        try await TestServer.run { server in
            let form = [
                "client_id": "app", "grant_type": "urn:authgear:params:oauth:grant-type:id-token",
            ]
            try await server.post("/oauth2/token", form: form)
                .expectRefusal(401, "invalid_grant", "valid session is required")
            let tokens = try await server.login()
            let json = try await server.post("/oauth2/token", form: form, bearer: tokens.access)
                .success()
            #expect(json["id_token"]?.string != nil)
        }
    }

    @Test func `a grant type that the server does not have is refused`() async throws {
        try await TestServer.run { server in
            try await server.post(
                "/oauth2/token", form: ["client_id": "app", "grant_type": "password"]
            )
            .expectRefusal(400, "unsupported_grant_type", "grant type is not supported")
        }
    }
}
