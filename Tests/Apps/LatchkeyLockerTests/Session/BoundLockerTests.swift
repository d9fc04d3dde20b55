import HTTPTypes
import Latchkey
import LatchkeyOAuth
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@testable import LatchkeyLocker

/// Sessions whose tokens the real server binds to a key in the TPM or token (RFC 9449).
@Suite(.softwareTPM, .softwareToken)
struct BoundLockerTests {
    @Test(arguments: SimulatedDevice.allCases, ["refresh_tokens", "access_tokens"])
    func `each session is bound, and the end of the enrolment deletes the key`(
        device: SimulatedDevice, binding: String
    ) async throws {
        try await Scene.with(on: device, client: ["dpop": binding]) { scene in
            var program = try await scene.start()
            let enrolled = try await program.locker.startAuthSession()
            #expect(enrolled.isEasyAccessEnabled)
            #expect(program.presence.requests.count == 1)
            try await expectUse(program, on: scene)
            let key = try #require(try await storedKey(program))
            let request = try #require(await scene.channel.requests.first)
            #expect(request.keyThumbprint == key.publicKey.thumbprint)

            // Another program has the key from the store.
            program = try await scene.start()
            #expect(try await program.locker.backgroundAccess().phase == .backgroundAccess)
            #expect(program.presence.requests.isEmpty)
            #expect(try await program.locker.startAuthSession().phase == .activeViaEasyAccess)
            #expect(program.presence.requests.count == 1)
            try await expectUse(program, on: scene)
            // The level shares need an access token and a proof.
            let strong = try await program.locker.startAuthSession(
                options: .init(requiredLevel: .strong))
            #expect(strong.phase == .activeViaStrongAuth)
            #expect(program.sealAll().count == 4)
            #expect(program.presence.requests.count == 1)
            try await program.locker.disableEasyAccess()
            #expect(try await storedKey(program)?.id == key.id)
            _ = try await program.locker.endAuthSession(mode: .destroy)
            #expect(try await storedKey(program) == nil)
        }
    }

    @Test func `a server that does not announce it gets no proof`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start()
            _ = try await program.locker.startAuthSession()
            #expect(try await storedKey(program) == nil)
            #expect(await scene.channel.requests.allSatisfy { $0.keyThumbprint == nil })
            try await expectUse(program, on: scene)
        }
    }

    private func storedKey(_ program: Program) async throws -> HardwareKey? {
        try await program.locker.configuration.records.metadata(LockerRows.dpopID)?.key
    }

    /// Sends a request of the app with the session's token.
    private func expectUse(_ program: Program, on scene: Scene) async throws {
        let endpoint = try #require(Endpoint(scene.server.endpoint + "/oauth2/userinfo"))
        var request = endpoint.request(.get)
        try await program.locker.authorizeRequest(&request)
        #expect(try await CurlTransport().send(request, body: []).0.status == .ok)
    }
}
