import Foundation
import FoundationNetworking
import HTTPTypes
import Latchkey
import LatchkeyCredentials
import LatchkeyCredentialsFoundation
import LatchkeyOAuth
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// Revocation, user data, introspection, and requests with a token.
@Suite(.softwareTPM)
struct RequestTests {
    @Test(arguments: [
        (Credential.RevokeType.accessToken, true, 1, true), (.accessToken, false, 1, false),
        (.refreshToken, true, 1, false), (.deviceSecret, true, 1, true), (.all, true, 3, false),
        (.all, false, 2, false),
    ])
    func `a credential that can't be used any more is removed`(
        type: Credential.RevokeType, refreshes: Bool, requests: Int, stays: Bool
    ) async throws {
        let bench = try Bench()
        let store = try await bench.start()
        let token = try bench.provider.signIn(refreshes: refreshes, deviceSecret: true)
        let credential = try store.store(token)
        try await credential.revoke(type: type)
        #expect(bench.provider.count("/revoke") == requests)
        #expect(try store.allCredentials.isEmpty == !stays)
        #expect(try store.defaultCredential == (stays ? credential : nil))
        guard stays else { return }
        let rest = try await credential.token
        if type == .deviceSecret {
            #expect(rest.deviceSecret == nil)
            #expect(rest.accessToken == token.accessToken)
        } else {
            // The server takes it no more, so the next use refreshes it.
            #expect(rest.isExpired(at: bench.clock.now))
            #expect(try await credential.userInfo().subject == "jane")
            #expect(try await credential.token.accessToken != token.accessToken)
        }
    }

    @Test func `revoking a missing secret sends no request`() async throws {
        let bench = try Bench()
        let credential = try await bench.start().store(bench.provider.signIn(refreshes: false))
        for type in [Credential.RevokeType.refreshToken, .deviceSecret] {
            await #expect(throws: credentials(.missingToken)) {
                try await credential.revoke(type: type)
            }
        }
        #expect(bench.provider.requests.isEmpty)
    }

    @Test func `if the server fails in between, the other secrets stay and can be revoked`()
        async throws
    {
        let bench = try Bench()
        let store = try await bench.start()
        let token = try bench.provider.signIn()
        let credential = try store.store(token)
        bench.provider.fail("/revoke", .status(400, #"{"error":"invalid_token"}"#))
        let error = await #expect(throws: credentials(.oauthError)) {
            try await credential.revoke()
        }
        #expect(error?.oauthError?.error == "invalid_token")
        #expect(try await credential.token == token)

        _ = try await bench.start()
        let other = try store.store(bench.provider.signIn(id: "half"))
        let steps = RecordingTransport(
            [.forward, .fail(keystore(.unavailable))], forwardingTo: bench.provider)
        let flaky = try #require(try await bench.start(transport: steps).credential(id: "half"))
        // Discovery goes through, and the first revocation fails.
        await #expect(throws: credentials(.network)) { try await flaky.revoke() }
        steps.append(.forward, .fail(keystore(.unavailable)))
        await #expect(throws: credentials(.network)) { try await flaky.revoke() }
        let rest = try await other.token
        #expect(rest.refreshToken == nil)
        #expect(!bench.provider.isValid("refresh-2") && bench.provider.isValid("access-2"))
        #expect(try !other.metadata.isRefreshable)
        try await other.revoke()
        #expect(!bench.provider.isValid("access-2"))
        #expect(try store.credential(id: "half") == nil)
    }

    @Test func `a server without a revocation endpoint is reported as unsupported`() async throws {
        let bench = try Bench(.softwareTPM, Provider.Manner(canRevoke: false, canIntrospect: false))
        let credential = try await bench.start().store(bench.provider.signIn())
        await #expect(throws: credentials(.unsupported)) { try await credential.revoke() }
        await #expect(throws: credentials(.unsupported)) { try await credential.introspect() }
        #expect(try await credential.token.accessToken == "access-1")
    }

    @Test func `user data of another user are refused`() async throws {
        let bench = try Bench()
        let credential = try await bench.start().store(bench.provider.signIn())
        let user = try await credential.userInfo()
        #expect(user.subject == "jane")
        #expect(user.name == "Jane Doe")
        bench.provider.setSubject("eve")
        await #expect(throws: credentials(.invalidResponse)) { try await credential.userInfo() }
        bench.provider.fail("/userinfo", .status(401, #"{"error":"invalid_token"}"#))
        await #expect(throws: credentials(.oauthError)) { try await credential.userInfo() }
    }

    @Test func `introspection tells whether a token is active`() async throws {
        let bench = try Bench()
        let credential = try await bench.start().store(bench.provider.signIn())
        #expect(try await credential.introspect().isActive)
        try await credential.revoke(type: .accessToken)
        #expect(try await !credential.introspect(.accessToken).isActive)
        #expect(try await credential.introspect(.refreshToken).isActive)
    }

    @Test func `a request gets a valid token`() async throws {
        let bench = try Bench()
        let credential = try await bench.start().store(bench.provider.signIn())
        var request = HTTPRequest(method: .get, scheme: "https", authority: "api.test", path: "/x")
        try await credential.authorize(&request)
        #expect(request.headerFields[.authorization] == "Bearer access-1")
        bench.clock.advance(by: 3500)
        var foundation = URLRequest(url: try #require(URL(string: "https://api.test:8443/x?y=z")))
        try await credential.authorize(&foundation)
        #expect(foundation.value(forHTTPHeaderField: "Authorization") == "Bearer access-2")
    }

    @Test func `if the refresh fails, only a token that has not expired is used`() async throws {
        let bench = try Bench()
        let credential = try await bench.start().store(bench.provider.signIn())
        var request = HTTPRequest(method: .get, scheme: "https", authority: "api.test", path: "/x")
        bench.clock.advance(by: 3500)
        bench.provider.fail("/token", .noNetwork)
        try await credential.authorize(&request)
        #expect(request.headerFields[.authorization] == "Bearer access-1")
        bench.clock.advance(by: 100)
        bench.provider.fail("/token", .noNetwork)
        await #expect(throws: credentials(.network)) { try await credential.authorize(&request) }
    }

    @Test(arguments: ["http://api.test/x", "ftp://api.test/x", "http://127.0.0.1.evil.test/"])
    func `no token is added to a request without TLS`(url: String) async throws {
        let bench = try Bench()
        let credential = try await bench.start().store(bench.provider.signIn())
        let parts = try #require(URL(string: url))
        var request = HTTPRequest(
            method: .get, scheme: parts.scheme, authority: parts.host(), path: parts.path)
        await #expect(throws: credentials(.invalidInput)) {
            try await credential.authorize(&request)
        }
        #expect(request.headerFields[.authorization] == nil)
        var foundation = URLRequest(url: parts)
        await #expect(throws: credentials(.invalidInput)) {
            try await credential.authorize(&foundation)
        }
        #expect(foundation.value(forHTTPHeaderField: "Authorization") == nil)
    }

    @Test(arguments: ["userInfo", "introspect", "refresh", "revoke"])
    func `a server that is another one or cannot be reached is an error before the prompt`(
        call: String
    ) async throws {
        let bench = try Bench()
        let presence = ScriptedPresence(pins: "2468", "2468")
        let store = try await bench.start(presence: presence)
        let credential = try await store.store(bench.provider.signIn(), security: .pin)
        func perform() async throws {
            switch call {
            case "userInfo": _ = try await credential.userInfo()
            case "introspect": _ = try await credential.introspect()
            case "refresh": try await credential.refresh()
            default: try await credential.revoke()
            }
        }
        let discovery = "/.well-known/openid-configuration"
        bench.provider.fail(
            discovery,
            .status(
                200,
                #"{"issuer":"https://evil.test","token_endpoint":"https://evil.test/t","jwks_uri":"https://evil.test/k"}"#
            ))
        await #expect(throws: credentials(.invalidResponse)) { try await perform() }
        bench.provider.fail(discovery, .noNetwork)
        await #expect(throws: credentials(.network)) { try await perform() }
        #expect(presence.requests.map(\.purpose) == [.new])
        // Also if the metadata was read before.
        try await perform()
        #expect(presence.requests.map(\.purpose) == [.new, .current])
        if call != "revoke" {
            bench.provider.fail(discovery, .noNetwork)
            await #expect(throws: credentials(.network)) { try await perform() }
            #expect(presence.requests.count == 2)
            try credential.remove()
        }
        #expect(try store.allIDs.isEmpty)
    }

    @Test func `a server without the endpoint is an error before the prompt`() async throws {
        let bench = try Bench(.softwareTPM, Provider.Manner(canRevoke: false, canIntrospect: false))
        let presence = ScriptedPresence(pins: "2468")
        let credential = try await bench.start(presence: presence)
            .store(bench.provider.signIn(), security: .pin)
        await #expect(throws: credentials(.unsupported)) { try await credential.revoke() }
        await #expect(throws: credentials(.unsupported)) { try await credential.introspect() }
        #expect(presence.requests.count == 1)
    }

    @Test func `a metadata document with another issuer is refused`() async throws {
        let bench = try Bench()
        let credential = try await bench.start().store(bench.provider.signIn())
        bench.provider.fail(
            "/.well-known/openid-configuration",
            .status(
                200,
                #"{"issuer":"https://evil.test","token_endpoint":"https://evil.test/t","jwks_uri":"https://evil.test/k"}"#
            ))
        await #expect(throws: credentials(.invalidResponse)) { try await credential.refresh() }
        bench.provider.fail(
            "/.well-known/openid-configuration",
            .status(
                200,
                #"{"issuer":"https://id.test","token_endpoint":"http://id.test/t","jwks_uri":"https://id.test/k"}"#
            ))
        await #expect(throws: credentials(.invalidResponse)) { try await credential.refresh() }
        #expect(bench.provider.count("/token") == 0)
    }

    @Test
    func `an endpoint at another origin gets no token unless the configuration lists the origin`()
        async throws
    {
        func document(_ more: String = "") -> Provider.Step {
            .status(
                200,
                """
                {"issuer":"https://id.test","token_endpoint":"https://tokens.test/token","jwks_uri":"https://id.test/keys",
                 "revocation_endpoint":"https://tokens.test/revoke","introspection_endpoint":"https://tokens.test/introspect",
                 "userinfo_endpoint":"https://tokens.test/userinfo"\(more)}
                """)
        }
        let bench = try Bench()
        let path = "/.well-known/openid-configuration"
        let credential = try await bench.start().store(bench.provider.signIn())
        bench.provider.fail(path, document())
        await #expect(throws: credentials(.invalidResponse)) { try await credential.refresh() }
        await #expect(throws: credentials(.invalidResponse)) { try await credential.revoke() }
        await #expect(throws: credentials(.invalidResponse)) { try await credential.introspect() }
        await #expect(throws: credentials(.invalidResponse)) { try await credential.userInfo() }
        #expect(
            ["/token", "/revoke", "/introspect", "/userinfo"].allSatisfy {
                bench.provider.count($0) == 0
            })
        bench.provider.fail(
            path, document(#","authorization_response_iss_parameter_supported":true"#))
        let id = try #require(try await bench.start().allIDs.first)
        _ = try await bench.start().credential(id: id)?.userInfo()
        bench.provider.fail(path, document())
        let listing = CredentialConfiguration(
            additionalOrigins: ["https://tokens.test"], clock: bench.clock)
        _ = try await bench.start(configuration: listing).credential(id: id)?.userInfo()
        #expect(bench.provider.count("/userinfo") == 2)
    }

    @Test func `a client secret is sent as the server requires`() async throws {
        let bench = try Bench()
        let context = Token.Context(
            issuer: "https://id.test", clientID: "app:1", clientSecret: "s c")
        let answer = #"{"access_token":"a","token_type":"Bearer","refresh_token":"r"}"#
        let token = try Token(response: Data(answer.utf8), context: context)
        let recording = RecordingTransport(forwardingTo: bench.provider)
        let credential = try await bench.start(transport: recording).store(token)
        await #expect(throws: credentials(.signInAgain)) { try await credential.refresh() }
        let basic = try #require(recording.recordings.last?.request.headerFields[.authorization])
        #expect(basic == "Basic \(Data("app%3A1:s%20c".utf8).base64EncodedString())")
        #expect(recording.recordings.last?.text == "grant_type=refresh_token&refresh_token=r")
    }
}
