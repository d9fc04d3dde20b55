internal import Latchkey
internal import LatchkeyJOSE
internal import LatchkeyOAuth

/// The proof that the locker's keys are in hardware, for a server that requires one.
extension Locker {
    typealias Prover = KeyProver<ErsteGroupAuthErrorCode>

    /// Prepares the proof. Reports a requirement that the new keys cannot meet before they exist.
    ///
    /// - Parameter policy: The policy of the easy-access key.
    /// - Returns: nil if the server gets no proof.
    func prover(
        for policy: AccessPolicy, _ server: LockerServer, _ token: SecretBytes
    ) async throws -> Prover? {
        guard let prover = try await Prover(server.client, configuration.records.keystore) else {
            return nil
        }
        try prover.check(policy)
        try await prover.prepare(authorization: token.text, now: now) { disclosure in
            try await prompting { try await configuration.disclosesHardware(disclosure) }
        }
        return prover
    }

    /// Signs the request that registers a new key, and makes the key's proof for the same
    /// challenge.
    func signNewKey(
        _ action: LockerAssertion.Action, with key: HardwareKey, enrolmentID: String?,
        provenBy prover: Prover?,
        at server: LockerServer, in context: FlowContext
    ) async throws -> (assertion: String, attestation: JSONValue?) {
        let challenge = try await server.challenge()
        let assertion = try await sign(
            action, challenge: challenge, with: key, enrolmentID: enrolmentID, at: server,
            in: context)
        return (assertion, try await prover?.statement(about: key, challenge: challenge))
    }
}
