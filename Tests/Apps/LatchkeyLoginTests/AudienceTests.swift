import Latchkey
import LatchkeyLogin
import LatchkeySimulators
import LatchkeyTesting
import Testing

/// For whom a device's signature and a server's ID token are.
@Suite(.softwareTPM) struct AudienceTests {
    private static let plain: Set = ["iat", "exp", "challenge", "action", "device_info"]

    private func payload(_ wire: RecordingTransport) throws -> [String: Any] {
        try #require(wire.recordings.last { $0.form["jwt"] != nil }?.jwt?.payload)
    }

    private func expectAudience(_ payload: [String: Any]) {
        #expect(Set(payload.keys) == Self.plain.union(["aud", "client_id"]))
        #expect(payload["aud"] as? String == FakeIdentity.address)
        #expect(payload["client_id"] as? String == "app")
    }

    @Test
    func
        `a server that requires an audience gets it, even if a later document does not require it`()
        async throws
    {
        try await Bench.with(.init(requiresAudience: true)) { bench in
            let wire = RecordingTransport(forwardingTo: bench.identity)
            let container = try await bench.start(transport: wire)
            try await container.authorize()
            try await container.enableBiometric()
            try expectAudience(payload(wire))
            await bench.identity.set { $0.requiresAudience = false }
            let downgraded = try await bench.start(transport: wire)
            try await downgraded.authenticateBiometric()
            try expectAudience(payload(wire))
            try await downgraded.enableBiometric(replacing: true)
            try expectAudience(payload(wire))
            try await bench.start(transport: wire).authenticateBiometric()
            try expectAudience(payload(wire))
        }
    }

    @Test func `a server that begins to require an audience gets it from then on`() async throws {
        try await Bench.with { bench in
            let wire = RecordingTransport(forwardingTo: bench.identity)
            let container = try await bench.start(transport: wire)
            try await container.authorize()
            try await container.enableBiometric()
            #expect(try Set(payload(wire).keys) == Self.plain)
            try await bench.start(transport: wire).authenticateBiometric()
            #expect(try Set(payload(wire).keys) == Self.plain)
            await bench.identity.set { $0.requiresAudience = true }
            let begun = try await bench.start(transport: wire)
            try await begun.authenticateBiometric()
            try expectAudience(payload(wire))
            await bench.identity.set { $0.requiresAudience = false }
            try await bench.start(transport: wire).authenticateBiometric()
            try expectAudience(payload(wire))
        }
    }

    @Test(
        arguments: [
            (["app", "other"], nil), (["app", "other"], "app"), (["app"], "other"),
            (["other"], "app"),
            (["app", FakeIdentity.address], nil),
        ] as [([String], String?)])
    func `an ID token that is not for this client alone logs no user in`(
        audience: [String], party: String?
    ) async throws {
        try await Bench.with { bench in
            let container = try await bench.start()
            try await container.authorize()
            try await container.enableBiometric()
            try await container.logout(keepBiometric: true)
            await bench.identity.set { ($0.audience, $0.authorizedParty) = (audience, party) }
            await #expect(throws: login(.invalidToken)) { try await bench.start().authorize() }
            await #expect(throws: login(.invalidToken)) {
                try await bench.start().authenticateBiometric()
            }
            #expect(try await container.sessionState == .noSession)
            #expect(await bench.identity.refreshTokens.isEmpty)
        }
    }
}
