import Foundation
import Latchkey
import LatchkeyJOSE
import LatchkeyTesting
import Testing

@testable import LatchkeyCredentials

/// ``Credential/oauth2``, and the default policy of a stored token.
@Suite(.softwareTPM)
struct OAuth2ClientTests {
    @Test func `the OAuth client of a credential with a policy is available without a prompt`()
        async throws
    {
        let bench = try Bench()
        _ = try await bench.start().store(bench.provider.signIn(id: "gated"), security: .pin)
        // A program that has not opened the token.
        let presence = ScriptedPresence([])
        let credential = try #require(
            try await bench.start(presence: presence).credential(id: "gated"))
        let client = credential.oauth2
        #expect(try client.issuer == bench.provider.manner.issuer && client.clientID == "app")
        let other = try bench.provider.signIn()
        #expect(try await client.introspect(token: other).isActive)
        #expect(try await client.userInfo(token: other).subject == "jane")
        try await client.revoke(other, type: .accessToken)
        #expect(try await !client.introspect(token: other).isActive)
        #expect(presence.requests.isEmpty)
    }

    @Test(arguments: [
        ("/userinfo", #"{"sub":42}"#, "‘sub’ has the wrong type (from ‘/userinfo’)"),
        ("/userinfo", #"{"name":"x"}"#, "‘sub’ is missing"),
        ("/userinfo", #"{"sub":""}"#, "‘sub’ has an invalid value"),
        ("/userinfo", #"{"sub":"eve"}"#, "‘sub’ is not that of the ID token"),
        ("/introspect", #"{"active":"yes"}"#, "‘active’ has the wrong type (from ‘/introspect’)"),
        ("/introspect", "{}", "‘active’ is missing"),
    ])
    func `an error about an answer names the member and the endpoint`(
        path: String, body: String, cause: String
    ) async throws {
        let bench = try Bench()
        let client = try await bench.start().store(bench.provider.signIn()).oauth2
        let token = try bench.provider.signIn()
        bench.provider.fail(path, .status(200, body))
        let error = await #expect(throws: CredentialError.self) {
            if path == "/userinfo" {
                _ = try await client.userInfo(token: token)
            } else {
                _ = try await client.introspect(token: token)
            }
        }
        #expect(error?.code == .invalidResponse)
        #expect(error?.reason.contains(cause) == true, "\(error?.reason ?? "")")
    }

    @Test func `a token of another client gets no request`() async throws {
        let bench = try Bench()
        let client = try await bench.start().store(bench.provider.signIn()).oauth2
        let context = Token.Context(issuer: bench.provider.manner.issuer, clientID: "another")
        let answer: [String: JSONValue] = ["access_token": "secret", "token_type": "Bearer"]
        let foreign = try Token(response: JSONEncoder().encode(answer), context: context)
        let before = bench.provider.requests
        await #expect(throws: credentials(.refused)) { try await client.introspect(token: foreign) }
        await #expect(throws: credentials(.refused)) { try await client.revoke(foreign) }
        #expect(bench.provider.requests == before)
    }

    @Test func `a refresh token from elsewhere survives a failure before and after its use`()
        async throws
    {
        let bench = try Bench()
        let token = try bench.provider.signIn()
        let given = try #require(token.refreshToken)
        let client = try await bench.start().store(token).oauth2
        bench.provider.fail("/keys", .noNetwork)
        await #expect(throws: credentials(.network)) {
            try await Token.from(refreshToken: given, using: client)
        }
        #expect(bench.provider.count("/token") == 0 && bench.provider.isValid(given))
        // Each response has a new refresh token.
        let foreign = try bench.provider.idToken("jane", ["aud": "another"])
        let responses: [([String: JSONValue], CredentialErrorCode)] = [
            (["token_type": .number(1)], .invalidResponse),
            (["id_token": .string("x")], .invalidResponse),
            (["id_token": .string(foreign.rawValue)], .invalidToken),
        ]
        for (members, code) in responses {
            bench.provider.fail("/token", .answer(members))
            await #expect(throws: credentials(code)) {
                try await Token.from(refreshToken: given, using: client)
            }
        }
        let result = try await Token.from(refreshToken: given, using: client)
        #expect(result.subject == "jane" && bench.provider.isValid(result.refreshToken))
        // Now the app has the token, and the given one is used up.
        await #expect(throws: credentials(.signInAgain)) {
            try await Token.from(refreshToken: given, using: client)
        }
    }

    /// The server of the client names the page of another one, or sends the browser on to it.
    @Test(
        arguments: [
            (page: "https://honest.test", announces: false, issuer: String?.none),
            ("https://honest.test", false, "https://id.test"),
            ("https://honest.test", true, nil),
            ("https://honest.test", true, "https://honest.test"),
            ("https://id.test", true, nil), ("https://id.test", false, "https://honest.test"),
            ("https://id.test", true, "https://id.test/"),
        ])
    func `a code that may be another server's is not sent`(
        page: String, announces: Bool, issuer: String?
    ) async throws {
        let bench = try Bench()
        _ = try await exchange(page, announces, issuer, bench, fails: .invalidResponse)
        #expect(bench.provider.count("/token") == 0)
    }

    @Test(
        arguments: [
            (page: "https://id.test", announces: false, issuer: String?.none),
            ("https://id.test", false, "https://id.test"),
            ("https://login.test", true, "https://id.test"),
        ])
    func `a code of the server is sent`(page: String, announces: Bool, issuer: String?) async throws
    {
        let bench = try Bench()
        // The provider has no logins.
        let client = try await exchange(page, announces, issuer, bench, fails: .oauthError)
        #expect(bench.provider.count("/token") == 1)
        let shown = try await client.openIdConfiguration().authorizationEndpoint
        #expect(shown?.absoluteString == "\(page)/authorize")
    }

    /// Redeems a code that an answer with `issuer` had.
    private func exchange(
        _ page: String, _ announces: Bool, _ issuer: String?, _ bench: Bench,
        fails code: CredentialError.Code
    ) async throws -> OAuth2Client {
        let client = try await bench.start().store(bench.provider.signIn()).oauth2
        bench.provider.setLoginPage("\(page)/authorize", announcesIssuer: announces)
        await #expect(throws: credentials(code)) {
            try await client.exchange(
                authorizationCode: "c", issuer: issuer, codeVerifier: PKCE().codeVerifier,
                redirectURI: "app:/callback")
        }
        return client
    }

    @Test func `a login page at another origin is not shown to the app`() async throws {
        let bench = try Bench()
        let client = try await bench.start().store(bench.provider.signIn()).oauth2
        bench.provider.setLoginPage("https://honest.test/authorize", announcesIssuer: false)
        await #expect(throws: credentials(.invalidResponse)) {
            try await client.openIdConfiguration()
        }
    }

    @Test func `a removed credential has no server`() async throws {
        let bench = try Bench()
        let credential = try await bench.start().store(bench.provider.signIn())
        let client = credential.oauth2
        try credential.remove()
        #expect(throws: credentials(.notFound)) { try client.issuer }
    }

    @Test func `without a policy and a reader, a protected token gets the PIN`() async throws {
        let bench = try Bench()
        let presence = ScriptedPresence(pins: "2468", "2468")
        let credential = try await bench.start(presence: presence).store(
            bench.provider.signIn(), security: nil)
        #expect(
            try credential.metadata.security == .pin && presence.requests.map(\.purpose) == [.new])
        #expect(try await credential.token.id == credential.id)
    }
}
