import FoundationEssentials
import Latchkey
import LatchkeyRelyingParty
import Testing

@testable import latchkey_identity

/// The ways to remove a device.
enum DeviceRemoval: CaseIterable {
    case app, settingsPage, administrator

    func remove(_ device: TestDevice, on server: TestServer) async throws {
        switch self {
        case .app:
            let answer = try await server.post(
                "/api/identity/biometric/remove", json: #"{"kid":"\#(device.kid)"}"#,
                bearer: server.login().access)
            #expect(answer.status == 200)
        case .settingsPage:
            let browser = TestBrowser(server: server)
            _ = try await browser.loginToSettings("alice")
            let page = try await browser.get("/settings/biometric")
            let form = [
                "csrf_token": try page.hiddenField("csrf_token"), "x_action": "remove",
                "x_device_id": try page.hiddenField("x_device_id"),
            ]
            #expect(try await browser.post("/settings/biometric", form).status == 303)
        case .administrator:
            #expect(try await server.services.revocation.revokeAll(of: server.alice.id) == 1)
        }
    }
}

@Suite("Sessions of a removed device") struct RemovedDeviceTests {
    @Test(arguments: DeviceRemoval.allCases)
    func `the removal of a device ends its sessions`(removal: DeviceRemoval) async throws {
        try await TestServer.run {
            $0.identity.biometric.listEnabled = true
        } body: { server in
            let device = TestDevice()
            let other = try await server.login()
            try await server.setUp(device, bearer: other.access).success()
            let session = try Tokens(await server.authenticate(device).success())
            try await server.userInfo(session.access).success()
            try await removal.remove(device, on: server)
            try await server.userInfo(session.access).expectRefusal(
                401, "invalid_grant", "invalid session")
            try await server.refresh(#require(session.refresh)).expectRefusal(
                400, "invalid_grant", "invalid refresh token")
            // A session that began with a password has no device. It can be on a lost one.
            guard removal == .app else {
                try await server.userInfo(other.access).expectRefusal(
                    401, "invalid_grant", "invalid session")
                try await server.refresh(#require(other.refresh)).expectRefusal(
                    400, "invalid_grant", "invalid refresh token")
                return
            }
            try await server.userInfo(other.access).success()
            try await server.refresh(#require(other.refresh)).success()
        }
    }

    @Test func `a session of easy access removes no other device`() async throws {
        try await TestServer.run { server in
            let device = TestDevice()
            try await server.setUp(device, bearer: server.login().access).success()
            let own = try await server.enrolledDevice()
            let other = try await server.enrolledDevice()
            let easy = try Tokens(
                await server.easyAccess(own, form: ["scope": TestServer.fullScope]).success())
            func remove(_ bearer: String) async throws -> Int {
                try await server.post(
                    "/api/identity/biometric/remove", json: #"{"kid":"\#(device.kid)"}"#,
                    bearer: bearer
                ).status
            }
            #expect(try await remove(easy.access) == 401)
            try await server.authenticate(device).success()
            try await server.disableEasyAccess(other.id, bearer: easy.access)
                .expectStrongAuthenticationWanted()
            try await server.easyAccess(other).success()
            try await server.disableEasyAccess(own.id, bearer: easy.access).expectDone()
            #expect(try await remove(server.login().access) == 200, "the control")
        }
    }

    @Test func `sessions of device keys end while their login is off`() async throws {
        try await TestServer.run { server in
            let device = TestDevice()
            try await server.setUp(device, bearer: server.login().access).success()
            let session = try Tokens(await server.authenticate(device).success())
            var configuration = server.services.configuration
            configuration.identity.biometric.disabled = true
            let changed = try await IdentityServices(
                configuration, database: server.services.database, hasher: PasswordHasher(),
                clock: server.time.clock, signingKeyCipher: TestDatabase.cipher())
            #expect(try await server.services.grants.session(accessToken: session.access) != nil)
            #expect(try await changed.grants.session(accessToken: session.access) == nil)
            let refresh = try #require(session.refresh.flatMap(RefreshToken.init))
            #expect(try await changed.grants.session(refresh) == nil)
            #expect(try await server.services.grants.session(refresh) != nil)
        }
    }

    @Test func `a session ends if its client is no longer configured`() async throws {
        try await TestServer.run { server in
            let tokens = try await server.login()
            var configuration = server.services.configuration
            configuration.clients[0].id = "another"
            let changed = try await IdentityServices(
                configuration, database: server.services.database, hasher: PasswordHasher(),
                clock: server.time.clock, signingKeyCipher: TestDatabase.cipher())
            #expect(try await changed.grants.session(accessToken: tokens.access) == nil)
        }
    }
}
