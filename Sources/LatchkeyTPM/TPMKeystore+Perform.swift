internal import Latchkey
internal import TPM2

extension TPMKeystore {
    /// How an object's one use is authorized, for a command that has its parameters protected as given.
    typealias UseAuthorization = (SessionAttributes) -> Authorization
    typealias UseBody<R> = @Sendable (TPM, TPMObject, UseAuthorization) throws(TPMError) -> R

    /// Uses an object once: by an earlier proof where one still serves and the authority takes it, else by a new one.
    func perform<R: Sendable>(
        _ use: KeyUse, authorizedBy presence: any PresenceAuthority, _ body: UseBody<R>
    ) async throws(KeystoreError) -> R {
        let emptyings = tickets.emptyings
        let policy = use.blob.key.publicArea.authPolicy
        if presence.acceptsEarlierProof, let ticket = tickets[policy] {
            do {
                return try await perform(use, by: .ticket(ticket), body).result
            } catch {
                // Its time is over, or the TPM was reset: the person is asked again.
                guard error.command == .policyTicket, error.responseCode != nil else {
                    throw await explained(error, use)
                }
                tickets.discard(policy)
            }
        }
        let proof = try await proof(for: use, presence)
        do {
            let performed = try await perform(use, by: proof, body)
            if let ticket = performed.ticket { tickets.keep(ticket, for: policy, unlessEmptiedSince: emptyings) }
            return performed.result
        } catch {
            if case .approval(let session, _) = proof, error.precedesResumption { await abandon(session) }
            throw await explained(error, use)
        }
    }

    private func perform<R: Sendable>(
        _ use: KeyUse, by proof: PresenceProof, _ body: UseBody<R>
    ) async throws(TPMError) -> TPM.Performed<R> {
        switch proof {
        case .authValue(let authValue):
            try await device.visit { (tpm) throws(TPMError) in try tpm.perform(use, with: authValue, body) }
        case .primed(let held, let authValue):
            try await device.use(held) { (tpm, session, object) throws(TPMError) in
                (try tpm.perform(use, with: authValue, in: session, with: object, body), nil)
            }
        case .userPIN(let authValue):
            try await device.visit { (tpm) throws(TPMError) in try tpm.perform(use, withUserPIN: authValue, body) }
        case .ticket(let ticket):
            try await device.visit { (tpm) throws(TPMError) in try tpm.perform(use, by: ticket, body) }
        case .approval(.suspended(let session), let approval):
            try await device.visit { (tpm) throws(TPMError) in
                try tpm.perform(use, by: approval, in: session, body)
            }
        case .approval(.held(let held), let approval):
            try await device.use(held) { (tpm, session, object) throws(TPMError) in
                try tpm.perform(use, by: approval, in: session, with: object, body)
            }
        }
    }

    /// Gives a session up that waited. It may be gone already.
    func abandon(_ session: PreparedSession) async {
        switch session {
        case .held(let use): await device.drop(use)
        case .suspended(let session):
            try? await device.visit { (tpm) throws(TPMError) in try tpm.flushContext(session.handle) }
        }
    }
}

extension TPMError {
    /// Whether a session that waited for an approval is still out of the TPM. Later it was flushed where it failed, and
    /// its handle may be somebody else's by now.
    fileprivate var precedesResumption: Bool {
        [nil, .createPrimary, .load, .contextLoad].contains(command)
    }
}
