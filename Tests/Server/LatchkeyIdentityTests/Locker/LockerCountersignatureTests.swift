import FoundationEssentials
import HTTPTypes
import Latchkey
import LatchkeyRelyingParty
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

/// Only the enrolment's device can add easy-access keys.
@Suite("Locker, countersignatures") struct LockerCountersignatureTests {
    private static let members =
        "the body must have the members assertion and device_signature, both strings, and no other"

    @Test func `an attacker with a fresh token cannot add a key`() async throws {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            // The attacker has the token of the user's program, and can enrol another device with
            // it.
            let bearer = device.tokens.access
            let former = LockerTestKey()
            let seen = try await server.assertion("easy-access-enable", by: former, of: device.id)
            let seenSignature = try device.key.countersignature(of: seen)
            try await server.enableEasyAccess(
                seen, deviceSignature: seenSignature, of: device.id, bearer: bearer
            )
            .expectDone()
            // The enrolment has room for a key.
            try await server.disableEasyAccess(
                device.id, query: "?kid=\(former.kid)", bearer: bearer
            ).expectDone()
            let (impostor, impostorDevice) = (LockerTestKey(), LockerTestKey())
            let enrolled = try await server.enrol(
                server.assertion("enrol", by: impostorDevice), bearer: bearer)
            #expect(enrolled.status == 201)
            let before = try await keys(of: device, server)

            func attack(_ sign: (String) throws -> String?) async throws -> Answer {
                let assertion = try await server.assertion(
                    "easy-access-enable", by: impostor, of: device.id)
                return try await server.enableEasyAccess(
                    assertion, deviceSignature: sign(assertion), of: device.id, bearer: bearer)
            }
            try await attack { _ in nil }.expectRefusal(400, "invalid_request", Self.members)
            try await attack { _ in "" }.expectNotAccepted("empty")
            try await attack { try impostor.countersignature(of: $0) }.expectNotAccepted(
                "the impostor's own key")
            try await attack { try impostorDevice.countersignature(of: $0) }.expectNotAccepted(
                "another enrolment's device")
            try await attack { try device.key.impostor.countersignature(of: $0) }.expectNotAccepted(
                "another key")
            try await attack { _ in seenSignature }.expectNotAccepted("over another assertion")
            try await attack { try device.easyAccess.countersignature(of: $0) }.expectNotAccepted(
                "an easy-access key")

            #expect(try await keys(of: device, server) == before)
            let asImpostor = EnrolledDevice(
                id: device.id, key: impostorDevice, easyAccess: impostor, tokens: device.tokens,
                shares: nil)
            try await server.easyAccess(asImpostor).expectRefusal(
                400, "easy_access_revoked", "the enrolment has no such easy-access key")
            try await server.levelShares(asImpostor, bearer: bearer).expectRevoked()
            try await server.easyAccess(device).success()
        }
    }

    @Test func `the body must have the device's signature, a string`() async throws {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            let assertion = try await server.assertion(
                "easy-access-enable", by: LockerTestKey(), of: device.id)
            let signature = try device.key.countersignature(of: assertion)
            let path = "\(TestServer.lockerPath)/\(device.id)/easy-access"
            for json in [
                #"{"assertion":"\#(assertion)"}"#, #"{"device_signature":"\#(signature)"}"#,
                #"{"assertion":"\#(assertion)","device_signature":7}"#,
                #"{"assertion":"\#(assertion)","device_signature":null}"#,
                #"{"assertion":"\#(assertion)","device_signature":["\#(signature)"]}"#,
                #"{"assertion":"\#(assertion)","deviceSignature":"\#(signature)"}"#,
                #"{"assertion":"\#(assertion)","device_signature":"\#(signature)","more":1}"#,
            ] {
                try await server.post(path, json: json, bearer: device.tokens.access)
                    .expectRefusal(400, "invalid_request", Self.members)
            }
            for flawed in [signature + "==", String(signature.dropLast(2)), signature + "AA"] {
                try await server.enableEasyAccess(
                    assertion, deviceSignature: flawed, of: device.id, bearer: device.tokens.access
                ).expectNotAccepted()
            }
            // None of them used the challenge.
            try await server.enableEasyAccess(
                assertion, deviceSignature: signature, of: device.id, bearer: device.tokens.access
            ).expectDone()
        }
    }

    @Test(arguments: ["enrol", "level-shares", "revoke"])
    func `other bodies must not have a device signature`(action: String) async throws {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            let assertion = try await server.assertion(
                action, by: device.signer(of: action), of: action == "enrol" ? nil : device.id)
            let path = TestServer.lockerPath + (action == "enrol" ? "" : "/\(device.id)/\(action)")
            let signature = try device.key.countersignature(of: assertion)
            let json = #"{"assertion":"\#(assertion)","device_signature":"\#(signature)"}"#
            try await server.post(path, json: json, bearer: device.tokens.access).expectRefusal(
                400, "invalid_request",
                "the body must have the member assertion, a string, and no other")
        }
    }

    private func keys(of device: EnrolledDevice, _ server: TestServer) async throws -> Set<String> {
        let locker = try #require(server.services.locker)
        let enrolment = try #require(try await locker.registry.enrolment(id: device.id))
        return Set(enrolment.easyAccessKeys.map(\.kid.rawValue))
    }
}
