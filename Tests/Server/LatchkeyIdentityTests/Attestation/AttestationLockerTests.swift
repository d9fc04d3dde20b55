import Crypto
import Foundation
import HTTPTypes
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

@Suite("Attestation, locker") struct AttestationLockerTests {
    /// The body of a request of the locker with an attestation.
    private func body(_ members: [String: String], attestation: String?) throws -> String {
        var text = try CanonicalJSON.text(members)
        if let attestation { text = text.dropLast() + #","attestation":\#(attestation)}"# }
        return text
    }

    private func enrol(
        _ server: TestServer, _ key: LockerTestKey, _ kind: TestTPM.Kind?, in tpm: TestTPM,
        certificates: [Data],
        bearer: String
    ) async throws -> Answer {
        let challenge = try #require(try await server.lockerChallenge(for: "enrol"))
        let assertion = try key.assertion(
            "enrol", audience: server.origin, enrolment: nil, challenge: challenge,
            now: server.time.seconds)
        let statement = try kind.map {
            try tpm.statement(
                $0, of: key.key, named: key.kid, challenge: challenge, origin: server.origin,
                certificates: certificates
            )
        }
        return try await server.post(
            TestServer.lockerPath, json: body(["assertion": assertion], attestation: statement),
            bearer: bearer)
    }

    private func enableEasyAccess(
        _ server: TestServer, _ key: LockerTestKey, device: LockerTestKey, _ kind: TestTPM.Kind?,
        in tpm: TestTPM,
        certificates: [Data], of id: String, bearer: String
    ) async throws -> Answer {
        let challenge = try #require(try await server.lockerChallenge(for: "easy-access-enable"))
        let assertion = try key.assertion(
            "easy-access-enable", audience: server.origin, enrolment: id, challenge: challenge,
            now: server.time.seconds)
        let statement = try kind.map {
            try tpm.statement(
                $0, of: key.key, named: key.kid, challenge: challenge, origin: server.origin,
                certificates: certificates
            )
        }
        return try await server.post(
            "\(TestServer.lockerPath)/\(id)/easy-access",
            json: body(
                [
                    "assertion": assertion,
                    "device_signature": device.countersignature(of: assertion),
                ],
                attestation: statement), bearer: bearer)
    }

    @Test
    func `a device key must be in hardware, an easy-access key must meet the whole requirement`()
        async throws
    {
        try await TestServer.runAttested({ _, attestation, _ in attestation.require = "presence" })
        { server, tpm in
            let bearer = try await server.login().access
            let chain = try await tpm.activate(on: server, bearer: bearer)
            let (device, easyAccess) = (LockerTestKey(), LockerTestKey())
            try await enrol(server, device, nil, in: tpm, certificates: chain, bearer: bearer)
                .expectRefusal(400, "attestation_required", "an attestation of the key is required")
            try await enrol(server, device, .imported, in: tpm, certificates: chain, bearer: bearer)
                .expectForged()
            let answer = try await enrol(
                server, device, .bare, in: tpm, certificates: chain, bearer: bearer)
            #expect(answer.status == 201, "\(answer.body)")
            let id = try #require(try answer.json["enrolment_id"]?.string)

            func enable(_ kind: TestTPM.Kind?) async throws -> Answer {
                try await enableEasyAccess(
                    server, easyAccess, device: device, kind, in: tpm, certificates: chain, of: id,
                    bearer: bearer)
            }
            try await enable(nil).expectRefusal(
                400, "attestation_required", "an attestation of the key is required")
            try await enable(.bare).expectRefused(.insufficientPresence)
            let enabled = try await enable(.pin)
            #expect(enabled.status == 204, "\(enabled.body)")
            let stored = try #require(try await server.services.locker.registry.enrolment(id: id))
            #expect(stored.deviceKey.attestation?.level == "hardware")
            #expect(stored.deviceKey.attestation?.presence == "none")
            #expect(stored.easyAccessKeys.map(\.attestation?.level) == ["presence"])
            #expect(stored.easyAccessKeys.map(\.attestation?.presence) == ["pin"])
            // The same key again changes nothing.
            let again = try await enable(.pin)
            #expect(again.status == 204, "\(again.body)")
        }
    }

    @Test func `a server without attestation ignores the member`() async throws {
        try await TestServer.run { server in
            let bearer = try await server.login().access
            let assertion = try await server.assertion("enrol", by: LockerTestKey())
            let answer = try await server.post(
                TestServer.lockerPath, json: body(["assertion": assertion], attestation: "{}"),
                bearer: bearer)
            #expect(answer.status == 201, "\(answer.body)")
        }
    }

    @Test func `the settings pages show each key's proof in words`() async throws {
        try await TestServer.runAttested { server, tpm in
            let bearer = try await server.login().access
            let chain = try await tpm.activate(on: server, bearer: bearer)
            try await server.setUp(TestDevice(), bearer: bearer).success()
            try await server.setUp(TestDevice(), .pin, in: tpm, certificates: chain, bearer: bearer)
                .success()
            let device = LockerTestKey()
            let enrolled = try await enrol(
                server, device, .bare, in: tpm, certificates: chain, bearer: bearer)
            let id = try #require(try enrolled.json["enrolment_id"]?.string)
            _ = try await enableEasyAccess(
                server, LockerTestKey(), device: device, .pin, in: tpm, certificates: chain, of: id,
                bearer: bearer)

            let browser = TestBrowser(server: server)
            _ = try await browser.loginToSettings("alice")
            let day = server.time.now.formatted(.iso8601.year().month().day().dateSeparator(.dash))
            let hardware = "key in a TPM of IBM (&lt;swtpm&gt;, firmware 20191023)"
            let logins = try await browser.get("/settings/biometric").body
            #expect(logins.contains("<small>Login: no proof of hardware</small>"))
            #expect(
                logins.contains(
                    "<small>Login: \(hardware), opens with a PIN, whose strength is not known (proven \(day))</small>"
                ))
            let enrolments = try await browser.get("/settings/locker").body
            #expect(
                enrolments.contains(
                    "<small>Device: \(hardware), opens without user verification (proven \(day)) · "
                        + "Easy access: \(hardware), opens with a PIN, whose strength is not known (proven \(day))</small>"
                ))
        }
    }
}
