import HTTPTypes
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import Testing

@testable import latchkey_identity

/// Biometric requests must name this server and their client.
@Suite("Biometric audience") struct BiometricAudienceTests {
    private static let refusal = "the JWT is not for this server and client"

    private func withServer(_ body: @Sendable (TestServer) async throws -> Void) async throws {
        try await TestServer.run({ $0.extensions.biometricAudience = true }, body: body)
    }

    private func audience(_ server: TestServer, client: String = "app") -> [String: JSONValue] {
        ["aud": .string(server.origin), "client_id": .string(client)]
    }

    @Test func `the audience is required by default, and advertised`() async throws {
        #expect(ServerConfiguration(clients: []).extensions.biometricAudience)
        try await withServer { server in
            let document = try await server.send(.get, "/.well-known/openid-configuration")
                .success()
            #expect(document["biometric_audience_required"] == .bool(true))
        }
        try await TestServer.run { server in
            let document = try await server.send(.get, "/.well-known/openid-configuration")
                .success()
            #expect(document["biometric_audience_required"] == nil)
        }
    }

    @Test func `a request for this server and client is accepted`() async throws {
        try await withServer { server in
            let device = TestDevice()
            let now = server.time.seconds
            let session = try await server.login()
            let setup = try device.setup(
                challenge: await server.challenge(), now: now, payload: audience(server))
            try await server.biometric(setup, bearer: session.access).success()
            let login = try device.authentication(
                challenge: await server.challenge(), now: now, payload: audience(server))
            try await server.biometric(login, overriding: ["scope": TestServer.fullScope]).success()
        }
    }

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
        try await withServer { server in
            let device = TestDevice()
            let now = server.time.seconds
            let session = try await server.login()
            let good = audience(server)
            let challenge = try await server.challenge()
            let foreign = good.merging(change) { $1 }
            try await server.biometric(
                device.setup(challenge: challenge, now: now, payload: foreign),
                bearer: session.access
            ).expectRefusal(400, "invalid_request", Self.refusal)
            try await server.biometric(
                device.setup(challenge: challenge, now: now, payload: good), bearer: session.access
            ).success()
            let second = try await server.challenge()
            try await server.biometric(
                device.authentication(challenge: second, now: now, payload: foreign)
            )
            .expectRefusal(400, "invalid_request", Self.refusal)
            try await server.biometric(
                device.authentication(challenge: second, now: now, payload: good)
            ).success()
        }
    }
}
