import Foundation
import HTTPTypes
import Latchkey
import LatchkeyRelyingParty
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

@Suite("Locker, configuration") struct LockerConfigurationTests {
    private static func configuration(_ extensions: String) throws -> ServerConfiguration {
        try ServerConfiguration(
            json: Data(
                #"{"clients": [{"client_id": "a", "redirect_uris": ["a.b:/"]}], "extensions": \#(extensions)}"#
                    .utf8))
    }

    @Test func `the locker is on by default, like the other extensions`() throws {
        for json in ["{}", #"{"locker": {}}"#, #"{"biometric_removal": false}"#] {
            let locker = try Self.configuration(json).extensions.locker
            #expect(locker.enabled && locker.levelShares)
            #expect(locker.backgroundScopes == ["openid", "profile"])
            #expect(locker.maximumEnrolments == 100)
        }
        let all = try Self.configuration(
            #"{"locker": {"enabled": false, "level_shares": false, "background_scopes": ["email"], "maximum_enrolments": 3}}"#
        ).extensions.locker
        #expect(!all.enabled && !all.levelShares)
        #expect(all.backgroundScopes == ["email"])
        #expect(all.maximumEnrolments == 3)
    }

    @Test(arguments: [
        (#""background_scopes": []"#, "extensions.locker.background_scopes"),
        (
            #""background_scopes": ["openid", "offline_access"]"#,
            "extensions.locker.background_scopes"
        ),
        (
            #""background_scopes": ["https://authgear.com/scopes/full-access"]"#,
            "extensions.locker.background_scopes"
        ),
        (#""background_scopes": ["payments"]"#, "extensions.locker.background_scopes"),
        (#""maximum_enrolments": 0"#, "extensions.locker.maximum_enrolments"),
        (#""level_shares": "yes""#, "extensions.locker.level_shares"),
    ])
    func `an error names the member`(member: String, name: String) {
        let error = #expect(throws: ConfigurationError.self) {
            try Self.configuration("{\"locker\": {\(member)}}")
        }
        #expect(error?.description.contains(name) == true)
    }

    @Test func `without the locker, its endpoints and grants do not exist`() async throws {
        try await TestServer.run {
            $0.extensions.locker.enabled = false
        } body: { server in
            let json = try await server.send(.get, "/.well-known/openid-configuration").success()
            #expect(json.object?.keys.contains { $0.hasPrefix("locker") } == false)
            #expect(json["grant_types_supported"] == ["authorization_code", "refresh_token"])
            for grant in [TestServer.easyAccessGrant, TestServer.backgroundGrant] {
                try await server.post(
                    "/oauth2/token",
                    form: ["client_id": "app", "grant_type": grant, "assertion": "x"]
                ).expectRefusal(400, "unsupported_grant_type", "grant type is not supported")
            }
            for path in ["", "/x/easy-access", "/x/level-shares", "/x/revoke"] {
                #expect(
                    try await server.post(TestServer.lockerPath + path, json: "{}").status == 404)
            }
            let browser = TestBrowser(server: server)
            _ = try await browser.loginToSettings("alice")
            #expect(try await !browser.get("/settings").body.contains("/settings/locker"))
            #expect(try await browser.get("/settings/locker").status == 404)
        }
    }

    @Test func `without level shares, the server neither stores nor releases any`() async throws {
        try await TestServer.run {
            $0.extensions.locker.levelShares = false
        } body: { server in
            let json = try await server.send(.get, "/.well-known/openid-configuration").success()
            #expect(json["locker_level_shares_supported"] == false)
            let device = try await server.enrolledDevice()
            #expect(device.shares == nil)
            #expect(try await server.easyAccess(device).success()["level_shares"] == nil)
            #expect(try await server.backgroundAccess(device).success()["level_shares"] == nil)
            #expect(
                try await server.levelShares(device, bearer: device.tokens.access).status == 404)
            let stored = try await server.services.grants.database.read {
                try $0.row(
                    """
                    SELECT background_share IS NULL AND active_share IS NULL AS are_null FROM latchkey_locker_enrolment
                    """
                )?.bool("are_null")
            }
            #expect(stored == true)
        }
    }

    @Test func `stored shares remain while level shares are off`() async throws {
        let database = try await TestDatabase.open()
        func locker(keepingShares: Bool) async throws -> LockerServices {
            var configuration = TestServer.configuration
            configuration.extensions.locker.levelShares = keepingShares
            let services = try await IdentityServices(
                configuration, database: database,
                hasher: PasswordHasher(cost: .init(logRounds: 4, blockSize: 1, parallelism: 1)),
                signingKeyCipher: TestDatabase.cipher())
            return try #require(services.locker)
        }
        let key = LockerTestKey()
        let enrolment = LockerEnrolment(
            userID: "u", clientID: "app",
            deviceKey: LockerKey(
                kid: try #require(KeyID(rawValue: key.kid)), publicKey: try key.publicKey),
            info: try #require(DeviceInfo(LockerTestKey.deviceInfo)), createdAt: .now)
        let shares = LevelShares()
        try await locker(keepingShares: true).registry.add(enrolment, shares: shares, limit: 1)
        for isOn in [false, true] {
            let services = try await locker(keepingShares: isOn)
            let policy = GrantPolicy(
                configuration: TestServer.configuration,
                devices: DatabaseDeviceRegistry(database, project: "latchkey"),
                enrolments: services.registry, attestation: nil)
            let permitted = try await database.read {
                try policy.permit(enrolment, userID: "u", clientID: "app", in: $0)
            }
            let both = try await services.levelShares(of: permitted, afterAuthenticationOf: "u")
            let background = try await services.backgroundShare(of: permitted)
            #expect(both == (isOn ? shares : nil))
            #expect(background == (isOn ? shares.background : nil))
        }
    }

    @Test func `a user's enrolments do not exceed the limit`() async throws {
        try await TestServer.run {
            $0.extensions.locker.maximumEnrolments = 2
        } body: { server in
            let first = try await server.enrolledDevice()
            _ = try await server.enrolledDevice()
            try await server.perform("enrol", first, bearer: first.tokens.access)
                .expectRefusal(
                    400, "invalid_request", "the user has as many enrolments as a user may have")
            _ = try await server.enrolledDevice("bob")
            try await server.revoke(first).expectDone()
            #expect(
                try await server.perform("enrol", first, bearer: first.tokens.access).status == 201)
        }
    }
}
