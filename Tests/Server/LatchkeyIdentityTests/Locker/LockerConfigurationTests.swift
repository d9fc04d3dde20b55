import HTTPTypes
import LatchkeyRelyingParty
import Testing

@testable import latchkey_identity

@Suite("Locker, configuration") struct LockerConfigurationTests {
    @Test func `without level shares, the server stores none`() async throws {
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
}
