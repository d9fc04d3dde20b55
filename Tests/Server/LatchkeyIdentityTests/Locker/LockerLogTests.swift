import FoundationEssentials
import HTTPTypes
import Latchkey
import LatchkeyJOSE
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@testable import latchkey_identity

@Suite("Locker, the log") struct LockerLogTests {
    @Test func `records actions and refusals, but no secret`() async throws {
        let log = RecordedLog()
        try await TestServer.run(logger: log.logger) { server in
            let device = try await server.enrolledDevice()
            let metadata: JSONValue = ["metadata": ["balance": "fourteen-crowns"]]
            let assertion = try await server.assertion(
                "easy-access", by: device.easyAccess, of: device.id, payload: metadata.object ?? [:]
            )
            let tokens = try Tokens(
                await server.send(
                    assertion, as: "easy-access", to: device, form: ["scope": TestServer.fullScope]
                ).success())
            try await server.send(assertion, as: "easy-access", to: device).expectNotAccepted()
            try await server.send("not.an.assertion", as: "revoke", to: device).expectNotAccepted()
            try await server.levelShares(device, bearer: tokens.access).success()
            try await server.disableEasyAccess(device.id, bearer: tokens.access).expectDone()
            try await server.revoke(device).expectDone()

            let text = log.text
            for entry in [
                "device enrolled", "easy access enabled", "easy access disabled",
                "enrolment revoked",
                "challengeRejected", "malformed", device.id,
            ] {
                #expect(text.contains(entry), "\(entry)")
            }
            let parts = assertion.split(separator: ".").map(String.init)
            let claims = try JSONDecoder().decode(
                JSONValue.self, from: #require(Base64URL.decode(parts[1])))
            var secrets = [
                "fourteen-crowns", assertion, parts[2], tokens.access, device.tokens.access,
                "not.an.assertion",
                try #require(claims["challenge"]?.string), try #require(tokens.refresh),
            ]
            secrets += try #require(device.shares?.object).values.compactMap(\.string)
            #expect(secrets.count == 10)
            for secret in secrets { #expect(!text.contains(secret), "\(secret.prefix(20))") }
        }
    }
}
