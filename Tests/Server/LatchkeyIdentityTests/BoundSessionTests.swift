import FoundationEssentials
import HTTPTypes
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

/// Sessions that are bound to a key of the client (RFC 9449), used without this key.
@Suite("Bound sessions") struct BoundSessionTests {
    private func withServer(
        _ binding: TokenBinding = .refreshTokens,
        _ body: @Sendable (TestServer) async throws -> Void
    ) async throws {
        try await TestServer.run({ $0.clients[0].dpop = binding }, body: body)
    }

    /// A request that uses a token of a session.
    private struct Use: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let path: String
        let type: String
        /// Whether the field `Authorization` has the access token.
        let hasAccessToken: Bool
        /// The status of the session's own request.
        let status: Int
        let body: @Sendable (TestServer, _ refreshToken: String) async throws -> String

        static func form(
            _ name: String, hasAccessToken: Bool,
            _ fields: @escaping @Sendable (TestServer, String) async throws -> [String: String]
        ) -> Use {
            Use(
                testDescription: name, path: "/oauth2/token",
                type: "application/x-www-form-urlencoded", hasAccessToken: hasAccessToken,
                status: 200
            ) { TestServer.encode(["client_id": "app"].merging(try await fields($0, $1)) { $1 }) }
        }

        static func json(
            _ name: String, _ path: String, hasAccessToken: Bool, status: Int,
            _ body: @escaping @Sendable (TestServer, String) async throws -> String
        ) -> Use {
            Use(
                testDescription: name, path: path, type: "application/json",
                hasAccessToken: hasAccessToken, status: status, body: body)
        }

        func send(
            _ tokens: JSONValue, to server: TestServer, provenBy device: TestDevice?
        ) async throws -> Answer {
            let (access, refresh) = (
                try #require(tokens["access_token"]?.string),
                try #require(tokens["refresh_token"]?.string)
            )
            let isBound = tokens["token_type"] == "DPoP"
            let proof = try device?.proof(
                server.origin + path, now: server.time.seconds,
                token: hasAccessToken && isBound ? access : nil)
            var fields = TestServer.fields(
                [proof].compactMap(\.self),
                authorization: hasAccessToken ? "\(isBound ? "DPoP" : "Bearer") \(access)" : nil)
            fields[.contentType] = type
            return try await server.send(
                .post, path, headers: fields, body: body(server, refresh))
        }
    }

    private static let uses: [Use] = [
        .form("a refresh", hasAccessToken: false) {
            ["grant_type": "refresh_token", "refresh_token": $1]
        },
        .form("an ID token", hasAccessToken: true) { _, _ in
            ["grant_type": "urn:authgear:params:oauth:grant-type:id-token"]
        },
        .form("the set-up of a device", hasAccessToken: true) { server, _ in
            [
                "grant_type": TestServer.biometricGrant,
                "jwt": try await TestDevice().setup(
                    challenge: server.challenge(), now: server.time.seconds),
            ]
        },
        .json(
            "a page of the server", "/oauth2/app_session_token", hasAccessToken: false, status: 200
        ) { #"{"refresh_token":"\#($1)"}"# },
        .json(
            "the removal of a device", "/api/identity/biometric/remove", hasAccessToken: true,
            status: 404
        ) { _, _ in #"{"kid":"12345678"}"# },
        .json("an enrolment", TestServer.lockerPath, hasAccessToken: true, status: 201) {
            server, _ in
            let assertion = try await server.assertion("enrol", by: LockerTestKey())
            return #"{"assertion":"\#(assertion)"}"#
        },
    ]

    @Test(arguments: uses, [TokenBinding.refreshTokens, .accessTokens])
    private func `each use of a stolen token needs the key`(use: Use, binding: TokenBinding)
        async throws
    {
        try await withServer(binding) { server in
            let (owner, thief) = (TestDevice(), TestDevice())
            let tokens = try await server.login(provenBy: owner)
            let isBound = use.hasAccessToken && binding == .accessTokens
            let status = isBound ? 401 : 400
            try await use.send(tokens, to: server, provenBy: nil).expectError(
                status, "invalid_dpop_proof")
            try await use.send(tokens, to: server, provenBy: thief).expectError(
                status, "invalid_grant")
            // The attempts used nothing up.
            let own = try await use.send(tokens, to: server, provenBy: owner)
            #expect(own.status == use.status, "\(own.body)")
        }
    }

    @Test func `an app's server can check a bearer token, and anyone can revoke a found token`()
        async throws
    {
        try await withServer { server in
            let owner = TestDevice()
            let tokens = try await server.login(provenBy: owner)
            let access = try #require(tokens["access_token"]?.string)
            let refresh = try #require(tokens["refresh_token"]?.string)
            try await server.userInfo(access).success()
            #expect(try await server.post("/oauth2/revoke", form: ["token": refresh]).status == 200)
            #expect(try await server.userInfo(access).status == 401)
            let proof = try owner.proof(server.tokenURL, now: server.time.seconds)
            try await server.refresh(refresh, proofs: [proof]).expectError(400, "invalid_grant")
        }
    }

    @Test func `a new authentication of a bound session needs its key`() async throws {
        try await withServer { server in
            let (owner, thief) = (TestDevice(), TestDevice())
            let hint = try await #require(server.login(provenBy: owner)["id_token"]?.string)
            let code = try await server.code(
                AuthorizationParameters(
                    scope: "openid https://authgear.com/scopes/full-access",
                    more: ["id_token_hint": hint, "max_age": "0"]))
            let now = server.time.seconds
            try await server.redeem(code, proofs: []).expectError(400, "invalid_dpop_proof")
            try await server.redeem(code, proofs: [thief.proof(server.tokenURL, now: now)])
                .expectError(400, "invalid_grant")
            let tokens = try await server.redeem(
                code, proofs: [owner.proof(server.tokenURL, now: now)]
            ).success()
            #expect(tokens["refresh_token"] == nil)
        }
    }

    @Test func `a session of easy access is bound too`() async throws {
        try await withServer(.optional) { server in
            let device = try await server.enrolledDevice()
            let (owner, thief) = (TestDevice(), TestDevice())
            let form = [
                "client_id": "app", "grant_type": TestServer.easyAccessGrant,
                "scope": TestServer.fullScope,
                "assertion": try await server.assertion(
                    "easy-access", by: device.easyAccess, of: device.id),
            ]
            let now = server.time.seconds
            let tokens = try await server.post(
                form, proofs: [owner.proof(server.tokenURL, now: now)]
            ).success()
            let access = try #require(tokens["access_token"]?.string)
            try await server.disableEasyAccess(device.id, bearer: access).expectError(
                400, "invalid_dpop_proof")
            let refresh = try #require(tokens["refresh_token"]?.string)
            try await server.refresh(refresh).expectError(400, "invalid_dpop_proof")
            try await server.refresh(refresh, proofs: [thief.proof(server.tokenURL, now: now)])
                .expectError(400, "invalid_grant")
            try await server.refresh(refresh, proofs: [owner.proof(server.tokenURL, now: now)])
                .success()
        }
    }

    @Test func `a proof of a session that has ended is no proof of another`() async throws {
        try await withServer { server in
            let owner = TestDevice()
            let first = try owner.proof(server.tokenURL, now: server.time.seconds)
            let ended = try await server.redeem(server.code(), proofs: [first]).success()
            let next = try await server.login(provenBy: owner)
            _ = try await server.post(
                "/oauth2/revoke", form: ["token": #require(ended["refresh_token"]?.string)])
            try await server.refresh(#require(next["refresh_token"]?.string), proofs: [first])
                .expectError(400, "invalid_dpop_proof")
        }
    }

    @Test func `a stolen refresh token is useless without its key`() async throws {
        try await withServer { server in
            let (owner, thief) = (TestDevice(), TestDevice())
            let tokens = try await server.login(provenBy: owner)
            #expect(tokens["token_type"] == "Bearer")
            let token = try #require(tokens["refresh_token"]?.string)
            let now = server.time.seconds
            try await server.refresh(token).expectError(400, "invalid_dpop_proof")
            try await server.refresh(token, proofs: [thief.proof(server.tokenURL, now: now)])
                .expectError(400, "invalid_grant")
            // The attempts used nothing up.
            try await server.refresh(token, proofs: [owner.proof(server.tokenURL, now: now)])
                .success()
        }
    }

    @Test func `a code without a proof gives no tokens, and a code for a key only to this key`()
        async throws
    {
        try await withServer { server in
            let (owner, thief) = (TestDevice(), TestDevice())
            let now = server.time.seconds
            try await server.redeem(server.code(), proofs: []).expectError(
                400, "invalid_dpop_proof")
            let request = AuthorizationParameters(more: ["dpop_jkt": try owner.thumbprint])
            let code = try await server.code(request)
            try await server.redeem(code, proofs: [thief.proof(server.tokenURL, now: now)])
                .expectError(400, "invalid_grant")
            try await server.redeem(code, proofs: [owner.proof(server.tokenURL, now: now)])
                .success()
            let wrong = AuthorizationParameters(more: ["dpop_jkt": "short"])
            let refused = try await TestBrowser(server: server).get(wrong.path)
            #expect(try refused.redirectParameter("error") == "invalid_request")
        }
    }

    @Test func `a session without a key ends when its client must use one`() async throws {
        try await TestServer.run { server in
            let tokens = try await server.login()
            var configuration = server.services.configuration
            configuration.clients[0].dpop = .refreshTokens
            let changed = try await IdentityServices(
                configuration, database: server.services.database, hasher: PasswordHasher(),
                clock: server.time.clock, signingKeyCipher: TestDatabase.cipher())
            let refresh = try #require(tokens.refresh.flatMap(RefreshToken.init))
            #expect(try await changed.grants.session(accessToken: tokens.access) == nil)
            #expect(try await changed.grants.session(refresh) == nil)
            #expect(try await server.services.grants.session(refresh) != nil)
        }
    }

    @Test func `an unbound session is not bound by a later proof`() async throws {
        try await TestServer.run { server in
            let tokens = try await server.login()
            let proof = try TestDevice().proof(server.tokenURL, now: server.time.seconds)
            let refreshed = try await server.refresh(
                #require(tokens.refresh), proofs: [proof]
            ).success()
            try await server.refresh(#require(refreshed["refresh_token"]?.string)).success()
        }
    }

    @Test func `a biometric login is bound too`() async throws {
        try await withServer(.accessTokens) { server in
            let (owner, device) = (TestDevice(), TestDevice())
            let now = server.time.seconds
            let access = try await #require(server.login(provenBy: owner)["access_token"]?.string)
            let setup = try await device.setup(challenge: server.challenge(), now: now)
            let form = ["client_id": "app", "grant_type": TestServer.biometricGrant]
            try await server.post(
                form.merging(["jwt": setup]) { $1 },
                proofs: [owner.proof(server.tokenURL, now: now, token: access)],
                authorization: "DPoP \(access)"
            ).success()
            let request = try await device.authentication(
                challenge: server.challenge(), now: now)
            let login = form.merging(["jwt": request, "scope": TestServer.fullScope]) { $1 }
            try await server.post(login, proofs: []).expectError(400, "invalid_dpop_proof")
            let again = try await device.authentication(challenge: server.challenge(), now: now)
            let tokens = try await server.post(
                login.merging(["jwt": again]) { $1 },
                proofs: [owner.proof(server.tokenURL, now: now)]
            ).success()
            try await server.refresh(#require(tokens["refresh_token"]?.string)).expectError(
                400, "invalid_dpop_proof")
        }
    }

    @Test func `the stored proofs of a key are deleted when they expire`() async throws {
        try await withServer { server in
            let owner = TestDevice()
            let token = try await #require(
                server.login(provenBy: owner)["refresh_token"]?.string)
            let proof = try owner.proof(server.tokenURL, now: server.time.seconds)
            try await server.refresh(token, proofs: [proof]).success()
            func rows() async throws -> Int? {
                try await server.services.database.read {
                    try $0.row("SELECT count(*) AS count FROM dpop_proof")?.integer("count")
                }
            }
            #expect(try await rows() == 2)
            server.time.advance(by: 302)
            try await ExpiredRows(
                database: server.services.database, clock: server.time.clock,
                logger: TestServer.quiet
            ).delete()
            #expect(try await rows() == 0)
        }
    }
}
