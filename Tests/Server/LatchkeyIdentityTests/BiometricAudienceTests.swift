import HTTPTypes
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import Testing

@testable import latchkey_identity

/// Biometric requests must name this server and their client.
@Suite("Biometric audience") struct BiometricAudienceTests {
    private static let refusal = "the JWT is not for this server and client"

    /// A malicious server forwards this server's challenge to a client, and the client's signature
    /// back.
    @Test(
        arguments: [
            ["aud": .string("https://other.example")], ["client_id": .string("other")],
            ["aud": .null],
            ["client_id": .null], ["aud": .null, "client_id": .null],
            ["aud": .array([.string("https://other.example")])],
        ] as [[String: JSONValue]])
    func `a request for another server or client is refused and does not use the challenge`(
        change: [String: JSONValue]
    ) async throws {
        try await TestServer.run { server in
            let device = TestDevice()
            let now = server.time.seconds
            let session = try await server.login()
            let challenge = try await server.challenge()
            try await server.biometric(
                device.setup(challenge: challenge, now: now, payload: change),
                bearer: session.access
            ).expectRefusal(400, "invalid_request", Self.refusal)
            try await server.biometric(
                device.setup(challenge: challenge, now: now), bearer: session.access
            ).success()
            let second = try await server.challenge()
            try await server.biometric(
                device.authentication(challenge: second, now: now, payload: change)
            )
            .expectRefusal(400, "invalid_request", Self.refusal)
            try await server.biometric(
                device.authentication(challenge: second, now: now)
            ).success()
        }
    }
}
