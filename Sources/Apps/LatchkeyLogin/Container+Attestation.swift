internal import FoundationEssentials
package import Latchkey
internal import LatchkeyOAuth

extension Container {
    /// Activates this TPM's attestation key for the server with the session, unless its certificate
    /// is fresh.
    ///
    /// From then on, new keys are proven to the server even if it requires nothing.
    ///
    /// - Throws: ``LoginError``; `unauthenticated` without a session, `invalidResponse` if the
    ///   server takes no proofs about TPMs, `refused`.
    package func activateAttestation() async throws -> AttestationIdentity {
        do {
            let keystore = try keystore.attesting()
            try await checkServer()
            let (session, access) = try await accessibleSession()
            let server = try await server(of: session)
            try await KeyProver(activatingAt: server.client, keystore).prepare(
                authorization: access.authorization, now: now,
                isAgreed: configuration.disclosesHardware)
            return try await keystore.attestationIdentity(for: server.metadata.issuer)
        } catch {
            throw error.during("activate the attestation key")
        }
    }
}
