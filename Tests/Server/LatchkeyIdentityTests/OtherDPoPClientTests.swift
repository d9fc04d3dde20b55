import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

/// Proofs of an independent implementation.
@Suite("Other DPoP clients", .requiresOpenIDProvider) struct OtherDPoPClientTests {
    @Test func `a proof that joserfc makes is accepted`() async throws {
        try await TestServer.run({ $0.clients[0].dpop = .refreshTokens }) { server in
            let proof = try await OpenIDProvider.proof(
                "POST", server.tokenURL, now: server.time.seconds)
            try await server.redeem(server.code(), proofs: [proof]).success()
        }
    }
}
