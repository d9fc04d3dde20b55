import FoundationEssentials
import Latchkey
import LatchkeyJOSE
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@testable import latchkey_identity

/// A device without easy access has no session. It disables easy access with the device key.
@Suite("Locker, easy access disabled by the device") struct LockerEasyAccessLossTests {
    private static let action = "easy-access-disable"

    @Test func `the device key removes all easy-access keys, or one by name`() async throws {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            let second = LockerTestKey()
            try await server.enableEasyAccess(second, of: device, bearer: device.tokens.access)
                .expectDone()
            let changed = EnrolledDevice(
                id: device.id, key: device.key, easyAccess: second, tokens: device.tokens,
                shares: nil)

            try await server.giveUp(["easy_access_kid": .string(device.easyAccess.kid)], device)
                .expectDone()
            try await server.easyAccess(device).expectEasyAccessRevoked()
            try await server.easyAccess(changed).success()
            for _ in 1...2 { try await server.giveUp([:], device).expectDone() }
            try await server.easyAccess(changed).expectEasyAccessRevoked()

            // The enrolment continues and can enable easy access again.
            try await server.backgroundAccess(device).success()
            try await server.enableEasyAccess(
                LockerTestKey(), of: device, bearer: device.tokens.access
            ).expectDone()
        }
    }

    @Test func `only the enrolment's device can disable easy access`() async throws {
        try await TestServer.run { server in
            let (device, other) = (
                try await server.enrolledDevice(), try await server.enrolledDevice("bob")
            )
            // The assertion of another device, and one of the easy-access key instead of the device
            // key.
            for key in [other.key, device.easyAccess, LockerTestKey()] {
                let assertion = try await server.assertion(Self.action, by: key, of: device.id)
                try await server.send(assertion, as: Self.action, to: device).expectRevoked()
            }
            let elsewhere = try await server.assertion(Self.action, by: other.key, of: other.id)
            try await server.send(elsewhere, as: Self.action, to: device).expectNotAccepted()
            try await server.easyAccess(device).success()

            try await server.revoke(device).expectDone()
            try await server.giveUp([:], device).expectRevoked()
        }
    }
}

extension TestServer {
    fileprivate func giveUp(_ claims: [String: JSONValue], _ device: EnrolledDevice) async throws
        -> Answer
    {
        let action = "easy-access-disable"
        return try await send(
            assertion(action, by: device.key, of: device.id, payload: claims), as: action,
            to: device)
    }
}
