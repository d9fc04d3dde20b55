internal import FoundationEssentials
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

/// One use of one stored object: what it takes to obtain a proof for it, and to explain why it failed.
struct KeyUse: Sendable {
    let blob: TPMKeyBlob
    let policy: AccessPolicy
    let use: ApprovalRequest.Use
    let root: StorageRoot
    let prompt: PromptContext
    let operation: String
    /// What keeps the object's authValue, for a key that can be taken back.
    var authorization: RevocableSecret?

    var protection: PresenceProtection? { blob.protection }
}

extension TPMKeystore {
    /// Reads a stored blob and holds it against what is said about it.
    func blob(
        _ bytes: Data, kind: TSS2PrivateKey.Kind, policy: AccessPolicy, backend: String, isRevocable: Bool = false,
        _ operation: String
    ) throws(KeystoreError) -> TPMKeyBlob {
        guard backend == self.backend else {
            throw .wrongDevice(operation, "it belongs to a keystore of the kind \(backend)")
        }
        let blob: TPMKeyBlob
        do {
            blob = try TPMKeyBlob(bytes)
        } catch {
            throw .damaged(operation, "its stored bytes can't be read: \(error)")
        }
        let protection = blob.protection
        guard policy.fits(protection), blob.key.kind == kind,
            blob.key.publicArea.isMade(
                from: isRevocable ? KeyTemplates.revocableKey : try template(kind, policy, protection, operation)),
            (blob.pinSalt?.count == PINHardening.saltBytes) == (policy.hasOwnPIN(protection) && !isRevocable),
            kind == .loadable || blob.binding == nil
        else { throw .damaged(operation, "its stored bytes don't fit its policy") }
        return blob
    }

    /// What is said about the hardware must be what was pinned when it was made.
    func check(
        _ assurance: AssuranceLevel, of policy: AccessPolicy, _ blob: TPMKeyBlob, under root: StorageRoot,
        _ operation: String
    ) throws(KeystoreError) {
        guard assurance == Self.assurance(of: policy, blob.protection, under: root) else {
            throw .damaged(operation, "its stored assurance ‘\(assurance)’ is not that of this TPM")
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

    /// What a failed use means.
    func explained(_ error: TPMError, _ use: KeyUse) async -> KeystoreError {
        if let kept = use.authorization { return await explained(error, use, kept) }
        switch (error.command, error.responseCode?.base) {
        case (.policySecret, .badAuth), (.policySecret, .authFail), (.policySecret, .authUnavailable):
            guard let pin = use.protection?.userPIN else { break }
            return await explained(error, pin, use.operation)
        case (.policyNV, _?): return await explainedFingers(error, use)
        case (.policySigned, .signature), (.policySigned, .expired), (.sign, .expired), (.unseal, .expired):
            return KeystoreError(
                operation: use.operation, code: .transient,
                reason: "the TPM did not accept the presence broker's approval, or not in time",
                recovery: "Try again; if it stays, have an administrator look at latchkey-presenced.",
                underlying: .init(error))
        case (.contextLoad, _?):
            return KeystoreError(
                operation: use.operation, code: .transient, reason: "the TPM was reset while the finger was waited for",
                recovery: "Try again.", underlying: .init(error))
        default: break
        }
        return await explained(
            error, use.root, hasPIN: use.policy.hasOwnPIN(use.protection), use.operation)
    }

    /// Has the TPM prove that the counter has moved: the answer that says so carries no proof.
    private func explainedFingers(_ error: TPMError, _ use: KeyUse) async -> KeystoreError {
        guard let counter = use.protection?.finger?.counter else { return KeystoreError(error, during: use.operation) }
        do {
            let value = try await device.visit { (tpm) throws(TPMError) in
                try tpm.provenBytes(of: counter.index, under: use.root)
            }
            guard value == counter.bytes else { return .fingersChanged(use.operation, underlying: error) }
            return KeystoreError(
                TPMError(
                    .forged, command: error.command,
                    reason: "it says that the counter changed, but the TPM proves that it did not"),
                during: use.operation)
        } catch {
            return await explained(error, use.root, hasPIN: false, use.operation)
        }
    }

    /// What a failed use means. Reads from the TPM what its answer alone does not say.
    func explained(
        _ error: TPMError, _ root: StorageRoot, hasPIN: Bool, _ operation: String
    ) async -> KeystoreError {
        do {
            switch (error.command, error.responseCode?.base) {
            case (_, .lockout):
                return .lockedOut(operation, try await lockoutState(operation).status, underlying: error)
            case (.load, .integrity), (.load, .binding), (.load, .attributes), (.load, .size), (.load, .value),
                (.load, .type), (.load, .handle), (.load, .hash), (.load, .scheme), (.load, .key), (.load, .eccPoint):
                guard try await isPinned(root, operation) else { return otherTPM(operation, underlying: error) }
                return .damaged(operation, "the TPM does not accept its stored bytes", underlying: .init(error))
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
