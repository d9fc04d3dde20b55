internal import FoundationEssentials
internal import Latchkey
internal import TPM2

extension TPMKeystore {
    /// Creates the authorization of the command that uses an object, with the given parameter encryption.
    typealias UseAuthorization = (SessionAttributes) -> Authorization
    /// The command that uses an object.
    typealias UseBody<R> = @Sendable (TPM, TPMObject, UseAuthorization) throws(TPMError) -> R

    /// Uses an object once, with a cached ticket if there is one and `presence` accepts it, otherwise with a new proof.
    func perform<R: Sendable>(
        _ use: KeyUse, authorizedBy presence: any PresenceAuthority, _ body: UseBody<R>
    ) async throws(KeystoreError) -> R {
        let generation = tickets.generation
        let policy = use.blob.key.publicArea.authPolicy
        if presence.acceptsEarlierProof, let ticket = tickets[policy] {
            do {
                return try await send(use, with: .ticket(ticket), body).result
            } catch {
                // The ticket expired, or the TPM was reset: prompt for a new proof.
                guard error.command == .policyTicket, error.responseCode != nil else {
                    throw await explainUse(error, use)
                }
                tickets.discard(policy)
            }
        }
        let proof = try await obtainProof(for: use, presence)
        do {
            let performed = try await send(use, with: proof, body)
            if let ticket = performed.ticket { tickets.store(ticket, for: policy, since: generation) }
            return performed.result
        } catch {
            if case .approval(let session, _) = proof, error.precedesResumption { await abandon(session) }
            throw await explainUse(error, use)
        }
    }

    private func send<R: Sendable>(
        _ use: KeyUse, with proof: PresenceProof, _ body: UseBody<R>
    ) async throws(TPMError) -> TPM.UseResult<R> {
        switch proof {
        case .authValue(let authValue):
            try await device.visit { (tpm) throws(TPMError) in try tpm.useWithAuthValue(use, authValue, body) }
        case .primed(let held, let authValue):
            try await device.use(held) { (tpm, session, object) throws(TPMError) in
                (try tpm.finishWithAuthValue(use, authValue, in: session, object, body), nil)
            }
        case .userPIN(let authValue):
            try await device.visit { (tpm) throws(TPMError) in try tpm.useWithUserPIN(use, authValue, body) }
        case .ticket(let ticket):
            try await device.visit { (tpm) throws(TPMError) in try tpm.useWithTicket(use, ticket, body) }
        case .approval(.suspended(let session), let approval):
            try await device.visit { (tpm) throws(TPMError) in
                try tpm.useWithApproval(use, approval, in: session, body)
            }
        case .approval(.held(let held), let approval):
            try await device.use(held) { (tpm, session, object) throws(TPMError) in
                try tpm.finishWithApproval(use, approval, in: session, object, body)
            }
        }
    }

    /// Discards a session that waited for an approval. It may be gone already.
    func abandon(_ session: PreparedSession) async {
        switch session {
        case .held(let use): await device.drop(use)
        case .suspended(let session):
            try? await device.visit { (tpm) throws(TPMError) in try tpm.flushContext(session.handle) }
        }
    }
}

extension TPMError {
    /// Whether the failure came before the suspended session was loaded again. A later failure flushes the session, and
    /// another process may use its handle.
    fileprivate var precedesResumption: Bool {
        [nil, .createPrimary, .load, .contextLoad].contains(command)
    }
}

/// One use of a stored object, with the data to obtain a proof and to explain a failure.
struct KeyUse: Sendable {
    let blob: TPMKeyBlob
    let policy: AccessPolicy
    let use: ApprovalRequest.Use
    let root: StorageRoot
    let prompt: PromptContext
    let operation: String
    /// The index that stores the authValue of a revocable key.
    var authorization: RevocableSecret?

    var protection: PresenceProtection? { blob.protection }
}

extension TPMKeystore {
    /// Decodes a stored blob and compares it with the stored policy.
    func blob(
        _ bytes: Data, kind: TSS2PrivateKey.Kind, policy: AccessPolicy, backend: String, isRevocable: Bool = false,
        _ operation: String
    ) throws(KeystoreError) -> TPMKeyBlob {
        guard backend == self.backend else {
            throw .wrongDevice(operation, "it belongs to a keystore of the type ‘\(backend)’")
        }
        let blob: TPMKeyBlob
        do {
            blob = try TPMKeyBlob(bytes)
        } catch {
            throw .damaged(operation, "its stored bytes cannot be decoded: \(error)")
        }
        let protection = blob.protection
        guard policy.fits(protection), blob.key.kind == kind,
            blob.key.publicArea.isMade(
                from: isRevocable ? KeyTemplates.revocableKey : try template(kind, policy, protection, operation)),
            (blob.pinSalt?.count == PINHardening.saltBytes) == (policy.hasOwnPIN(protection) && !isRevocable),
            kind == .loadable || blob.binding == nil
        else { throw .damaged(operation, "its stored bytes do not match its policy") }
        return blob
    }

    /// Compares the stored assurance with the pinned hardware.
    func check(
        _ assurance: AssuranceLevel, of policy: AccessPolicy, _ blob: TPMKeyBlob, under root: StorageRoot,
        _ operation: String
    ) throws(KeystoreError) {
        guard assurance == Self.assurance(of: policy, blob.protection, under: root) else {
            throw .damaged(operation, "its stored assurance ‘\(assurance)’ does not match this TPM")
        }
    }

    static func assurance(
        of policy: AccessPolicy, _ protection: PresenceProtection?, under root: StorageRoot
    ) -> AssuranceLevel {
        let presence: AssuranceLevel.EnforcedPresence =
            switch policy.requirement {
            case .none: .none
            case .pin: .pin
            case .userPresence: .fingerOrPIN
            case .biometryAny, .biometryCurrentSet: .finger
            }
        return AssuranceLevel(
            root: root.assuranceRoot, presence: presence, pinProtection: protection?.userPIN == nil ? .device : .user)
    }

    /// Explains a failed use.
    func explainUse(_ error: TPMError, _ use: KeyUse) async -> KeystoreError {
        if let kept = use.authorization { return await explainRevocableUse(error, use, kept) }
        switch (error.command, error.responseCode?.base) {
        case (.policySecret, .badAuth), (.policySecret, .authFail), (.policySecret, .authUnavailable):
            guard let pin = use.protection?.userPIN else { break }
            return await explainUserPIN(error, pin, use.operation)
        case (.policyNV, _?): return await explainCounter(error, use)
        case (.policySigned, .signature), (.policySigned, .expired), (.sign, .expired), (.unseal, .expired):
            return KeystoreError(
                operation: use.operation, code: .transient,
                reason: "the TPM rejected the presence broker's approval, or the approval expired",
                recovery: "Try again. If it fails again, ask an administrator to check latchkey-presenced.",
                underlying: .init(error))
        case (.contextLoad, _?):
            return KeystoreError(
                operation: use.operation, code: .transient, reason: "the TPM was reset during the fingerprint prompt",
                recovery: "Try again.", underlying: .init(error))
        default: break
        }
        return await explainResponse(
            error, use.root, hasPIN: use.policy.hasOwnPIN(use.protection), use.operation)
    }

    /// Reads the counter in an audited session: the error response of PolicyNV is not authenticated.
    private func explainCounter(_ error: TPMError, _ use: KeyUse) async -> KeystoreError {
        guard let counter = use.protection?.finger?.counter else { return KeystoreError(error, during: use.operation) }
        do {
            let value = try await device.visit { (tpm) throws(TPMError) in
                try tpm.provenBytes(of: counter.index, under: use.root)
            }
            guard value == counter.bytes else { return .fingersChanged(use.operation, underlying: error) }
            return KeystoreError(
                TPMError(
                    .forged, command: error.command,
                    reason: "it says that the counter changed, but the TPM proved that it did not"),
                during: use.operation)
        } catch {
            return await explainResponse(error, use.root, hasPIN: false, use.operation)
        }
    }

    /// Explains an error response, after reading further state from the TPM where the response code alone is ambiguous.
    func explainResponse(
        _ error: TPMError, _ root: StorageRoot, hasPIN: Bool, _ operation: String
    ) async -> KeystoreError {
        do {
            switch (error.command, error.responseCode?.base) {
            case (_, .lockout):
                return .lockedOut(operation, try await lockoutState(operation).status, underlying: error)
            case (.load, .integrity), (.load, .binding), (.load, .attributes), (.load, .size), (.load, .value),
                (.load, .type), (.load, .handle), (.load, .hash), (.load, .scheme), (.load, .key), (.load, .eccPoint):
                guard try await isPinned(root, operation) else { return otherTPM(operation, underlying: error) }
                return .damaged(operation, "the TPM rejected its stored bytes", underlying: .init(error))
            case (.load, .badAuth), (.load, .authFail), (.getCapability, .badAuth), (.getCapability, .authFail),
                (.nvUndefineSpace, .badAuth), (.nvUndefineSpace, .authFail):
                guard try await isPinned(root, operation) else { return otherTPM(operation, underlying: error) }
                return KeystoreError(error, during: operation)
            case (.startAuthSession, .handle), (.startAuthSession, .value), (.startAuthSession, .key):
                guard try await isPinned(root, operation) else { return otherTPM(operation, underlying: error) }
                return KeystoreError(error, during: operation)
            case (_, .authFail), (_, .badAuth):
                guard hasPIN else { return KeystoreError(error, during: operation) }
                return .wrongPIN(operation, try await lockoutState(operation).status, underlying: error)
            default: return KeystoreError(error, during: operation)
            }
        } catch {
            return error
        }
    }
}
