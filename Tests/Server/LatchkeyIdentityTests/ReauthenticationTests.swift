import FoundationEssentials
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

/// A login with an ID token of a session renews the session (`auth_time`).
@Suite("New authentications") struct ReauthenticationTests {
    private static let scope = "openid https://authgear.com/scopes/full-access"

    private func request(
        _ hint: String?, scope: String = Self.scope
    ) throws -> AuthorizationParameters {
        AuthorizationParameters(
            scope: scope, more: ["id_token_hint": try #require(hint), "max_age": "0"])
    }

    /// Logs in with the request and returns the code.
    private func code(
        _ request: AuthorizationParameters, on server: TestServer
    ) async throws -> String {
        let answer = try await TestBrowser(server: server).login(request, username: "alice")
        return try #require(try answer.redirectParameter("code"))
    }

    private func sessions(_ server: TestServer) async throws -> Int? {
        try await server.services.database.read {
            try $0.row("SELECT count(*) AS count FROM offline_grant")?.integer("count")
        }
    }

    @Test func `it is the time of the login, and no other session begins`() async throws {
        try await TestServer.run { server in
            let session = try await server.login()
            let first = server.time.seconds
            server.time.advance(by: 100)
            let request = try request(session.id)
            let code = try await code(request, on: server)
            server.time.advance(by: 20)
            let again = try Tokens(await server.exchange(code: code, request).success())
            #expect(again.refresh == nil)
            #expect(try again.claims["auth_time"]?.number == Double(first + 100))
            #expect(try again.claims["sid"] == session.claims["sid"])
            #expect(try await sessions(server) == 1)
            let refreshed = try Tokens(await server.refresh(#require(session.refresh)).success())
            #expect(try refreshed.claims["auth_time"]?.number == Double(first + 100))
            try await server.userInfo(again.access).success()
        }
    }

    @Test func `a login with offline_access begins another session`() async throws {
        try await TestServer.run { server in
            let session = try await server.login()
            let first = server.time.seconds
            server.time.advance(by: 100)
            let request = try request(session.id, scope: TestServer.fullScope)
            let other = try Tokens(
                await server.exchange(code: code(request, on: server), request).success())
            #expect(other.refresh != nil)
            #expect(try other.claims["sid"] != session.claims["sid"])
            let refreshed = try Tokens(await server.refresh(#require(session.refresh)).success())
            #expect(try refreshed.claims["auth_time"]?.number == Double(first))
        }
    }

    @Test(arguments: ["openid", "openid https://authgear.com/scopes/full-access profile"])
    func `a login with other scopes begins another session, with these scopes`(scope: String)
        async throws
    {
        try await TestServer.run { server in
            let session = try await server.login()
            let request = try request(session.id, scope: scope)
            let answer = try await server.exchange(code: code(request, on: server), request)
                .success()
            #expect(answer["scope"]?.string == scope)
            #expect(try Tokens(answer).claims["sid"] != session.claims["sid"])
        }
    }

    @Test func `a session that has ended is not continued`() async throws {
        try await TestServer.run { server in
            let session = try await server.login()
            let refresh = try #require(session.refresh)
            let late = try request(session.id)
            let early = try await code(late, on: server)
            _ = try await server.post("/oauth2/revoke", form: ["token": refresh])
            try await server.exchange(code: early, late).expectRefusal(
                400, "invalid_grant", "invalid authorization code")
            let other = try Tokens(
                await server.exchange(code: code(late, on: server), late).success())
            #expect(try other.claims["sid"] != session.claims["sid"])
            #expect(try await server.refresh(refresh).status == 400)
        }
    }

    @Test func `a second use of the code ends the session`() async throws {
        try await TestServer.run { server in
            let session = try await server.login()
            let request = try request(session.id)
            let code = try await code(request, on: server)
            try await server.exchange(code: code, request).success()
            #expect(try await server.exchange(code: code, request).status == 400)
            #expect(try await server.refresh(#require(session.refresh)).status == 400)
        }
    }

    @Test func `a password continues a device's session, which still ends with the device`()
        async throws
    {
        try await TestServer.run { server in
            let device = TestDevice()
            try await server.setUp(device, bearer: server.login().access).success()
            let session = try Tokens(await server.authenticate(device).success())
            #expect(try session.claims["amr"] == ["x_biometric"])
            let request = try request(session.id)
            let again = try Tokens(
                await server.exchange(code: code(request, on: server), request).success())
            #expect(try again.claims["sid"] == session.claims["sid"])
            #expect(try again.claims["amr"] == nil)
            try await DeviceRemoval.app.remove(device, on: server)
            #expect(try await server.userInfo(again.access).status == 401)
        }
    }

    @Test func `after a password, a device's session still needs what its key needs`()
        async throws
    {
        try await TestServer.run { server in
            let device = TestDevice()
            try await server.setUp(device, bearer: server.login().access).success()
            let session = try Tokens(await server.authenticate(device).success())
            let request = try request(session.id)
            let again = try Tokens(
                await server.exchange(code: code(request, on: server), request).success())
            var configuration = server.services.configuration
            configuration.identity.biometric.disabled = true
            let changed = try await IdentityServices(
                configuration, database: server.services.database, hasher: PasswordHasher(),
                clock: server.time.clock, signingKeyCipher: TestDatabase.cipher())
            let refresh = try #require(session.refresh.flatMap(RefreshToken.init))
            #expect(try await changed.grants.session(accessToken: again.access) == nil)
            #expect(try await changed.grants.session(refresh) == nil)
            #expect(try await server.services.grants.session(refresh) != nil, "the control")
        }
    }

    @Test func `a session of easy access is not continued`() async throws {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            let session = try Tokens(
                await server.easyAccess(device, form: ["scope": TestServer.fullScope]).success())
            let request = try request(session.id)
            let other = try Tokens(
                await server.exchange(code: code(request, on: server), request).success())
            #expect(try other.claims["sid"] != session.claims["sid"])
        }
    }
}
