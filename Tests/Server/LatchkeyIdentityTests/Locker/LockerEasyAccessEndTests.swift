import FoundationEssentials
import HTTPTypes
import Latchkey
import LatchkeyRelyingParty
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

/// Sessions of easy access after the removal of their key, and their permissions.
@Suite("Locker, the end of easy access") struct LockerEasyAccessEndTests {
    private static let full = ["scope": TestServer.fullScope]

    @Test(arguments: [true, false])
    func `a session and its refresh token end with its key`(byTheDevice: Bool) async throws {
        try await TestServer.run { server in
            let (device, other) = (
                try await server.enrolledDevice(), try await server.enrolledDevice("bob")
            )
            let session = try Tokens(await server.easyAccess(device, form: Self.full).success())
            let elsewhere = try Tokens(await server.easyAccess(other).success())
            try await server.levelShares(device, bearer: session.access).success()
            if byTheDevice {
                try await server.perform("easy-access-disable", device).expectDone()
            } else {
                try await server.disableEasyAccess(device.id, bearer: device.tokens.access)
                    .expectDone()
            }
            try await server.levelShares(device, bearer: session.access)
                .expectRefusal(401, "invalid_token", "the access token is unknown or has expired")
            #expect(try await server.refresh(#require(session.refresh)).status == 400)
            #expect(try await server.userInfo(session.access).status == 401)
            // Sessions of other kinds and devices continue.
            try await server.userInfo(device.tokens.access).success()
            try await server.levelShares(device, bearer: device.tokens.access).success()
            try await server.userInfo(elsewhere.access).success()
        }
    }

    @Test func `a change of the key ends the sessions of the old key only`() async throws {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            let old = try Tokens(await server.easyAccess(device).success())
            let new = LockerTestKey()
            try await server.enableEasyAccess(new, of: device, bearer: device.tokens.access)
                .expectDone()
            let changed = EnrolledDevice(
                id: device.id, key: device.key, easyAccess: new, tokens: device.tokens, shares: nil)
            let session = try Tokens(await server.easyAccess(changed).success())
            try await server.disableEasyAccess(of: device, key: device.easyAccess.kid).expectDone()
            #expect(try await server.userInfo(old.access).status == 401)
            try await server.userInfo(session.access).success()
        }
    }

    @Test func `easy access has no refresh token unless it requests one`() async throws {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            let json = try await server.easyAccess(device).success()
            #expect(json["refresh_token"] == nil)
            #expect(json["scope"] == .string("openid \(Scope.fullAccess)"))
            #expect(
                try await server.easyAccess(device, form: Self.full).success()["refresh_token"]
                    != nil)
        }
    }

    @Test
    func `a session of easy access gets shares for 300 seconds, however often it is refreshed`()
        async throws
    {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            let session = try Tokens(await server.easyAccess(device, form: Self.full).success())
            server.time.advance(by: 300)
            try await server.levelShares(device, bearer: session.access).success()
            server.time.advance(by: 1)
            let refreshed = try Tokens(await server.refresh(#require(session.refresh)).success())
            for bearer in [session.access, refreshed.access] {
                try await server.levelShares(device, bearer: bearer)
                    .expectStrongAuthenticationWanted()
            }
        }
    }

    @Test
    func
        `a session of easy access cannot add a biometric identity, which would outlive the enrolment`()
        async throws
    {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            let session = try Tokens(await server.easyAccess(device).success())
            let phone = TestDevice()
            try await server.setUp(phone, bearer: session.access).expectStrongAuthenticationWanted()
            #expect(try await server.authenticate(phone).status == 400)
            // The user can, after a login.
            try await server.setUp(phone, bearer: device.tokens.access).success()
        }
    }

    @Test func `the removal of a key while its session begins is not reported as a revocation`()
        async throws
    {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            let registry = server.services.locker.registry
            let enrolment = try #require(try await registry.enrolment(id: device.id))
            let key = enrolment.easyAccessKeys[0]
            try await registry.removeAllEasyAccessKeys(of: enrolment)
            let grant = LoginGrant(
                id: "g", clientID: "app", userID: server.alice.id, deviceID: nil,
                enrolmentID: device.id, easyAccessKeyID: key.kid.rawValue, scope: "openid",
                amr: .easyAccess, authTime: 0, expiresAt: 9e9, idleExpiresAt: 9e9,
                keyThumbprint: nil)
            let error = await #expect(throws: LockerRequestError.self) {
                try await server.services.grants.insert(
                    grant, provenBy: .easyAccess(enrolment, key),
                    tokens: NewTokens(expiresIn: 60, keyThumbprint: nil, refresh: nil))
            }
            #expect(error?.code == .easyAccessRevoked)
        }
    }

    @Test func `a repeated scope is granted once`() async throws {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            let many = String(repeating: "openid ", count: 2_000)
            #expect(
                try await server.backgroundAccess(device, form: ["scope": many]).success()["scope"]
                    == "openid")
            let full = many + Scope.fullAccess
            let json = try await server.easyAccess(device, form: ["scope": full]).success()
            #expect(json["scope"] == .string("openid \(Scope.fullAccess)"))
        }
    }
}
