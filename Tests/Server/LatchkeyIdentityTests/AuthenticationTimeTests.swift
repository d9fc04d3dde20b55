import FoundationEssentials
import Latchkey
import LatchkeyJOSE
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

/// `auth_time` (OpenID Connect Core section 2) tells a client when its user was authenticated.
@Suite("auth_time") struct AuthenticationTimeTests {
    @Test(arguments: [["prompt": "login"], ["max_age": "0"]])
    func `it is the time of the login`(more: [String: String]) async throws {
        try await TestServer.run { server in
            let browser = TestBrowser(server: server)
            _ = try await browser.loginToSettings("alice")
            server.time.advance(by: 100)
            let began = server.time.seconds
            let fresh = AuthorizationParameters(more: more)
            let code = try #require(
                try await browser.login(fresh, username: "alice").redirectParameter("code"))
            server.time.advance(by: 20)
            let tokens = try Tokens(await server.exchange(code: code, fresh).success())
            #expect(try tokens.claims["auth_time"]?.number == Double(began))
        }
    }

    @Test func `easy access has its own, which a refresh or a new ID token does not change`()
        async throws
    {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            server.time.advance(by: 500)
            let began = Double(server.time.seconds)
            let session = try Tokens(
                await server.easyAccess(device, form: ["scope": TestServer.fullScope]).success())
            #expect(try session.claims["auth_time"]?.number == began)
            server.time.advance(by: 500)
            let refreshed = try Tokens(await server.refresh(#require(session.refresh)).success())
            #expect(try refreshed.claims["auth_time"]?.number == began)
            let form = [
                "client_id": "app", "grant_type": "urn:authgear:params:oauth:grant-type:id-token",
            ]
            let answer = try await server.post("/oauth2/token", form: form, bearer: session.access)
                .success()
            let parts = try #require(answer["id_token"]?.string).split(separator: ".")
            let claims = try JSONDecoder().decode(
                JSONValue.self, from: try #require(Base64URL.decode(String(parts[1]))))
            #expect(claims["auth_time"]?.number == began)
        }
    }
}
