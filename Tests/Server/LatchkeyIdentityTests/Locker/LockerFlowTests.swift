import FoundationEssentials
import HTTPTypes
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

@Suite("Locker") struct LockerFlowTests {
    @Test func `discovery advertises the locker`() async throws {
        try await TestServer.run { server in
            let json = try await server.send(.get, "/.well-known/openid-configuration").success()
            #expect(
                json["locker_enrolment_endpoint"]?.string == server.origin + "/locker/enrolments")
            #expect(json["locker_level_shares_supported"] == true)
            #expect(json["locker_background_scopes_supported"] == ["openid", "profile"])
            #expect(
                json["grant_types_supported"] == [
                    "authorization_code", "refresh_token", .string(TestServer.easyAccessGrant),
                    .string(TestServer.backgroundGrant),
                ])
        }
    }

    @Test func `an enrolment has two shares, which never change`() async throws {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            #expect(device.id.wholeMatch(of: /[A-Za-z0-9_-]{8,64}/) != nil)
            let shares = try #require(device.shares?.object?.mapValues { $0.string ?? "" })
            #expect(Set(shares.keys) == ["background", "active"])
            #expect(shares.values.allSatisfy { Base64URL.decode($0)?.count == 32 })
            #expect(Set(shares.values).count == 2)
            let other = try await server.enrolledDevice()
            #expect(other.shares != device.shares && other.id != device.id)

            for _ in 1...2 {
                let easy = try await server.easyAccess(device).success()
                #expect(easy["level_shares"] == device.shares)
                let background = try await server.backgroundAccess(device).success()
                #expect(
                    background["level_shares"] == [
                        "background": .string(try #require(shares["background"]))
                    ])
                for bearer in [device.tokens.access, try #require(easy["access_token"]?.string)] {
                    let answer = try await server.levelShares(device, bearer: bearer).success()
                    #expect(answer == .object(["level_shares": try #require(device.shares)]))
                }
            }
        }
    }

    @Test func `easy access begins a full session that is not strong`() async throws {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            server.time.advance(by: 1_000)
            let json = try await server.easyAccess(device, form: ["scope": TestServer.fullScope])
                .success()
            let tokens = try Tokens(json)
            let claims = try tokens.claims
            #expect(claims["sub"] == .string(server.alice.id))
            #expect(claims["amr"] == ["hwk", "pin"])
            #expect(claims["auth_time"]?.number == Double(server.time.seconds))
            #expect(json["scope"] == .string(TestServer.fullScope))
            #expect(json["expires_in"] == 1_800)
            #expect(
                try await server.userInfo(tokens.access).success()["sub"]
                    == .string(server.alice.id))

            // A refresh or a new ID token does not make it strong.
            let refreshed = try Tokens(await server.refresh(#require(tokens.refresh)).success())
            #expect(try refreshed.claims["amr"] == ["hwk", "pin"])
            for bearer in [tokens.access, refreshed.access] {
                try await server.perform("enrol", device, bearer: bearer)
                    .expectStrongAuthenticationWanted()
                try await server.perform("easy-access-enable", device, bearer: bearer)
                    .expectStrongAuthenticationWanted()
            }
        }
    }

    @Test func `easy access has the requested scopes, which must include openid`() async throws {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            let narrow = try await server.easyAccess(device, form: ["scope": "openid email"])
                .success()
            #expect(narrow["scope"] == "openid email" && narrow["refresh_token"] == nil)
            #expect(narrow["level_shares"] == device.shares)
            try await server.levelShares(device, bearer: narrow["access_token"]?.string)
                .expectRefusal(
                    403, "insufficient_scope",
                    "the access token needs the scope https://authgear.com/scopes/full-access")
            try await server.easyAccess(device, form: ["scope": "openid payments"])
                .expectRefusal(400, "invalid_scope", "specified scope is not allowed: payments")
            try await server.easyAccess(device, form: ["scope": "email"])
                .expectRefusal(400, "invalid_scope", "must request 'openid' scope")
        }
    }

    @Test func `a background token has few scopes and works with them`() async throws {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            let json = try await server.backgroundAccess(device).success()
            let token = try #require(json["access_token"]?.string)
            #expect(json["refresh_token"] == nil && json["id_token"] == nil)
            #expect(json["scope"] == "openid profile")
            #expect(try await server.userInfo(token).success()["sub"] == .string(server.alice.id))
            #expect(
                try await server.backgroundAccess(device, form: ["scope": "profile"]).success()[
                    "scope"] == "profile")
            for scope in ["email", "offline_access", Scope.fullAccess] {
                try await server.backgroundAccess(device, form: ["scope": "openid \(scope)"])
                    .expectRefusal(400, "invalid_scope", "specified scope is not allowed: \(scope)")
            }
            server.time.advance(by: 1_800)
            #expect(try await server.userInfo(token).status == 401)
        }
    }

    @Test func `a background token is refused where full access is required`() async throws {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            let json = try await server.backgroundAccess(device).success()
            let token = try #require(json["access_token"]?.string)
            let needed = "the access token needs the scope https://authgear.com/scopes/full-access"
            for action in ["enrol", "easy-access-enable", "level-shares"] {
                let answer = try await server.perform(action, device, bearer: token)
                try answer.expectRefusal(403, "insufficient_scope", needed)
                #expect(
                    answer.headers[.wwwAuthenticate]?.hasPrefix(
                        "Bearer error=\"insufficient_scope\"") == true)
            }
            try await server.disableEasyAccess(device.id, bearer: token).expectRefusal(
                403, "insufficient_scope", needed)

            // It can neither add nor remove a biometric identity, nor get an ID token.
            try await server.setUp(TestDevice(), bearer: token)
                .expectRefusal(401, "invalid_grant", "biometric setup requires authenticated user")
            #expect(
                try await server.post(
                    "/api/identity/biometric/remove", json: #"{"kid":"12345678"}"#, bearer: token
                )
                .status == 401)
            let form = [
                "client_id": "app", "grant_type": "urn:authgear:params:oauth:grant-type:id-token",
            ]
            try await server.post("/oauth2/token", form: form, bearer: token)
                .expectRefusal(401, "invalid_grant", "valid session is required")

            let withoutOpenID = try await server.backgroundAccess(
                device, form: ["scope": "profile"]
            ).success()
            try await server.userInfo(#require(withoutOpenID["access_token"]?.string))
                .expectRefusal(403, "insufficient_scope", "the access token needs the scope openid")
        }
    }

    @Test func `easy access can be changed and disabled`() async throws {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            let bearer = device.tokens.access
            let (second, third) = (LockerTestKey(), LockerTestKey())
            for _ in 1...2 {
                try await server.enableEasyAccess(second, of: device, bearer: bearer).expectDone()
            }
            try await server.enableEasyAccess(third, of: device, bearer: bearer).expectRefusal(
                409, "easy_access_limit", "an enrolment has at most 2 easy-access keys")
            let session = try Tokens(await server.easyAccess(device).success())

            try await server.disableEasyAccess(of: device, key: device.easyAccess.kid).expectDone()
            try await server.easyAccess(device).expectRefusal(
                400, "easy_access_revoked", "the enrolment has no such easy-access key")
            #expect(try await server.userInfo(session.access).status == 401)
            let changed = EnrolledDevice(
                id: device.id, key: device.key, easyAccess: second, tokens: device.tokens,
                shares: nil)
            try await server.easyAccess(changed).success()

            try await server.enableEasyAccess(third, of: device, bearer: bearer).expectDone()
            // A session of easy access can disable easy access, which ends the session.
            let last = try Tokens(await server.easyAccess(changed).success())
            try await server.disableEasyAccess(device.id, bearer: last.access).expectDone()
            try await server.easyAccess(changed).expectRefusal(
                400, "easy_access_revoked", "the enrolment has no such easy-access key")
            #expect(try await server.userInfo(last.access).status == 401)
            for _ in 1...2 {
                try await server.disableEasyAccess(device.id, bearer: bearer).expectDone()
            }
            try await server.backgroundAccess(device).success()
        }
    }

    @Test func `an easy-access key cannot be the device key or have its name`() async throws {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            for key in [
                device.key, device.key.impostor, LockerTestKey(key: device.key.key),
                device.easyAccess.impostor,
            ] {
                try await server.enableEasyAccess(key, of: device, bearer: device.tokens.access)
                    .expectNotAccepted()
            }
        }
    }

    @Test func `a revoked enrolment is refused for all actions, and its sessions end`() async throws
    {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            let other = try await server.enrolledDevice()
            let easy = try Tokens(
                await server.easyAccess(device, form: ["scope": TestServer.fullScope]).success())
            let background = try #require(
                try await server.backgroundAccess(device).success()["access_token"]?.string)
            let elsewhere = try Tokens(await server.easyAccess(other).success())
            let revocation = try await server.assertion("revoke", by: device.key, of: device.id)

            for _ in 1...2 {
                try await server.send(revocation, as: "revoke", to: device).expectDone()
                #expect(try await server.userInfo(easy.access).status == 401)
                #expect(try await server.userInfo(background).status == 401)
                #expect(try await server.refresh(#require(easy.refresh)).status == 400)
            }
            // Strong sessions and other devices continue.
            try await server.userInfo(device.tokens.access).success()
            try await server.userInfo(elsewhere.access).success()

            let bearer = device.tokens.access
            for action in [
                "easy-access-enable", "easy-access", "background-access", "level-shares",
            ] {
                let answer = try await server.perform(action, device, bearer: bearer)
                try answer.expectRevoked()
                #expect(
                    answer.headers[.wwwAuthenticate]?.hasPrefix(
                        "Bearer error=\"enrolment_revoked\"") == true)
            }
            try await server.disableEasyAccess(device.id, bearer: bearer).expectRevoked()
            // Without the enrolment, its signature cannot be verified.
            try await server.send(
                server.assertion("revoke", by: device.key.impostor, of: device.id), as: "revoke",
                to: device
            ).expectDone()
            try await server.easyAccess(other).success()
        }
    }

    @Test func `a revocation is accepted years later`() async throws {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            let revocation = try await server.assertion("revoke", by: device.key, of: device.id)
            server.time.advance(by: 3 * 365 * 86_400)
            try await server.send(revocation, as: "revoke", to: device).expectDone()
            try await server.backgroundAccess(device).expectRevoked()
        }
    }

    @Test func `a key of the wrong kind is refused`() async throws {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            let swapped = EnrolledDevice(
                id: device.id, key: device.easyAccess, easyAccess: device.key,
                tokens: device.tokens, shares: nil)
            try await server.easyAccess(swapped).expectRefusal(
                400, "easy_access_revoked", "the enrolment has no such easy-access key")
            try await server.backgroundAccess(swapped).expectRevoked()
            try await server.levelShares(swapped, bearer: device.tokens.access).expectRevoked()
            try await server.revoke(swapped).expectRevoked()
            try await server.easyAccess(device).success()
        }
    }
}
