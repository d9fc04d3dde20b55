import Foundation
import Latchkey
import LatchkeyOAuth
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// Proofs under the eyes of an independent implementation.
@Suite(.softwareTPM, .requiresOpenIDProvider) struct ProofTests {
    @Test func `joserfc accepts the proofs`() async throws {
        let made = try await SimulatedKey.make()
        let now = Date()
        let key = DPoPKey(made.key, in: made.keystore, now: { now })
        let seconds = Int(now.timeIntervalSince1970)
        for (url, token, nonce) in [
            ("https://id.example.com/token", nil, nil),
            ("https://id.example.com:8443/a/b?c=d", "access", nil),
            ("http://127.0.0.1:4711", "access", "nonce-1"),
        ] as [(String, String?, String?)] {
            let proof = try await key.proof(for: "POST", url, accessToken: token, nonce: nonce)
            let named = url.hasSuffix("4711") ? url + "/" : url
            #expect(
                try await OpenIDProvider.thumbprint(
                    of: proof, "POST", named, now: seconds, token: token, nonce: nonce)
                    == key.thumbprint)
        }
        let proofs = [
            try await key.proof(for: "GET", "https://a.test/"),
            try await key.proof(for: "GET", "https://a.test/"),
        ]
        #expect(proofs[0] != proofs[1])
        await #expect(throws: keystore(.invalidInput)) {
            try await key.proof(for: "GET", "http://a.test/")
        }
    }
}
