internal import FoundationEssentials
internal import Latchkey
internal import TPM2

extension TPMKeystore {
    /// Uses an object once, with a cached ticket if there is one and `presence` accepts it,
    /// otherwise with a new proof, of which the ticket is cached if `presence` accepts one.
    func perform<C>(
        _ use: KeyUse<C>, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> C.Response {
        let generation = tickets.generation
        let scope = use.blob.reuseScope
        if presence.acceptsEarlierProof, let ticket = tickets[scope] {
            do {
                return try await send(use, with: .ticket(ticket)).response
            } catch {
                // The ticket expired, or the TPM was reset: prompt for a new proof.
                guard error.command == .policyTicket, error.responseCode != nil else {
                    throw await explainUse(error, use)
                }
                tickets.discard(scope)
            }
        }
        let proof = try await obtainProof(for: use, presence)
        do {
            let (response, ticket) = try await send(use, with: proof)
            if presence.acceptsEarlierProof, let ticket {
                tickets.store(ticket, for: scope, since: generation)
            }
            if proof.isKnowledge, use.policy.hasPIN { presence.accepted() }
            return response
        } catch {
            if case .approval(let session, _) = proof, error.precedesResumption {
                await abandon(session)
            }
            let explained = await explainUse(error, use)
            if explained.code == .wrongProof { presence.rejected() }
            throw explained
        }
    }

    /// - Returns: The response, and a ticket that authorizes the next use without a prompt.
    func send<C>(
        _ use: KeyUse<C>, with proof: PresenceProof
    ) async throws(TPMError) -> (response: C.Response, ticket: ProofTicket?) {
        switch proof {
        case .authValue(let authValue):
            try await device.run { (tpm) throws(TPMError) in
                (try tpm.use(use, authValue: authValue), nil)
            }
        case .primed(let held, let authValue):
            try await device.use(held) { (tpm, session, object) throws(TPMError) in
                (try tpm.finish(use, authValue: authValue, in: session, object), nil)
            }
        case .userPIN(let authValue):
            try await device.run { (tpm) throws(TPMError) in
                try tpm.use(use, userPIN: authValue)
            }
        case .ticket(let ticket):
            try await device.run { (tpm) throws(TPMError) in
                (try tpm.use(use, ticket: ticket), nil)
            }
        case .approval(.suspended(let session), let approval):
            try await device.run { (tpm) throws(TPMError) in
                try tpm.use(use, approval, in: session)
            }
        case .approval(.held(let held), let approval):
            try await device.use(held) { (tpm, session, object) throws(TPMError) in
                try tpm.finish(use, approval, in: session, object)
            }
        }
    }

    /// Discards a session that waited for an approval. It may be gone already.
    func abandon(_ session: PreparedSession) async {
        switch session {
        case .held(let use): await device.drop(use)
        case .suspended(let session):
            try? await device.run { (tpm) throws(TPMError) in
                try tpm.execute(FlushContext(session.handle))
            }
        }
    }
}

extension TPMError {
    /// Whether the failure came before the suspended session was loaded again. A later failure
    /// flushes the session, and another process may use its handle.
    var precedesResumption: Bool {
        [nil, .createPrimary, .load, .contextLoad].contains(command)
    }
}

/// One use of a stored object: the command, and the data to obtain a proof and to explain a
/// failure.
struct KeyUse<Command: KeyCommand>: Sendable {
    /// Names the object, which is not loaded yet.
    let command: Command
    /// The same use for the presence broker, which computes the hash of the command itself.
    let request: ApprovalRequest.Use
    let blob: TPMKeyBlob
    let policy: AccessPolicy
    let root: StorageRoot
    let prompt: PromptContext
    /// The index that a revocable key needs.
    var authorization: RevocableSecret?

    var protection: PresenceProtection { blob.protection }
}

extension KeyUse<Sign> {
    init(
        signing digest: MessageDigest, with blob: TPMKeyBlob, policy: AccessPolicy,
        under root: StorageRoot, prompt: PromptContext, authorization: RevocableSecret?
    ) throws(KeystoreError) {
        self.init(
            command: Sign(digest.bytes, with: try blob.reference, scheme: blob.scheme),
            request: blob.scheme == .null ? .sign(digest) : .signNamingScheme(digest), blob: blob,
            policy: policy, root: root, prompt: prompt, authorization: authorization)
    }
}

extension TPMKeyBlob {
    /// The objects that a reusable proof opens without another prompt: signing keys with the same
    /// policy, or all others with it. A finger for a signature opens no secret.
    fileprivate var reuseScope: [UInt8] { [origin == nil ? 0 : 1] + key.publicArea.authPolicy }

    /// The object before it is loaded.
    var reference: NamedHandle {
        get throws(KeystoreError) {
            try KeystoreError.explaining { () throws(TPMError) in
                NamedHandle(named: try key.publicArea.name)
            }
        }
    }
}

extension PresenceAuthority {
    /// Runs an operation in which the TPM checks or sets a PIN of this authority, and reports the
    /// result.
    ///
    /// - Parameter pin: Nil for an operation without a PIN, which reports nothing.
    func reporting<R>(_ pin: PIN?, _ body: () async throws(KeystoreError) -> R)
        async throws(KeystoreError) -> R
    {
        do throws(KeystoreError) {
            let result = try await body()
            if pin != nil { accepted() }
            return result
        } catch {
            if pin != nil, error.code == .wrongProof { rejected() }
            throw error
        }
    }
}

extension TPMKeystore {
    /// Decodes the stored bytes of a key or secret of this keystore.
    func decoded<S: StoredStructure>(_ bytes: Data, backend: String) throws(KeystoreError) -> S {
        guard backend == self.backend else {
            throw .wrongDevice("the key or secret belongs to a keystore of the type ‘\(backend)’")
        }
        do { return try S(bytes) } catch {
            throw .damaged("the stored bytes of the key or secret cannot be decoded: \(error)")
        }
    }

    /// Decodes a stored blob and compares it with the stored policy.
    func blob(
        _ bytes: Data, _ content: TPMKeyBlob.Content, policy: AccessPolicy, backend: String,
        isRevocable: Bool = false
    ) throws(KeystoreError) -> TPMKeyBlob {
        let blob: TPMKeyBlob = try decoded(bytes, backend: backend)
        let isMade = try KeystoreError.explaining { () throws(TPMError) in
            try blob.isMade(as: content, under: policy)
        }
        guard isMade, blob.protection.fits(policy), blob.protection.isRevocable == isRevocable
        else { throw .damaged("the stored bytes of the key or secret do not match its policy") }
        return blob
    }

    /// Decodes a sealed secret that is not revocable.
    func blob(_ secret: SealedSecret) throws(KeystoreError) -> TPMKeyBlob {
        try blob(secret.blob, .sealedData, policy: secret.policy, backend: secret.backend)
    }

    /// Compares the stored assurance with the pinned hardware.
    func check(
        _ assurance: AssuranceLevel, of policy: AccessPolicy, _ protection: PresenceProtection,
        under root: StorageRoot
    ) throws(KeystoreError) {
        guard assurance == Self.assurance(of: policy, protection, under: root) else {
            throw .damaged("the stored assurance ‘\(assurance)’ does not match this TPM")
        }
    }

    static func assurance(
        of policy: AccessPolicy, _ protection: PresenceProtection, under root: StorageRoot
    ) -> AssuranceLevel {
        let presence: AssuranceLevel.EnforcedPresence =
            switch policy.requirement {
            case .none: .none
            case .pin: .pin
            case .userPresence: .fingerOrPIN
            case .biometryAny, .biometryCurrentSet: .finger
            }
        return AssuranceLevel(
            root: root.assuranceRoot, presence: presence,
            pinProtection: protection.brokerPIN == nil ? .device : .user)
    }

    /// Explains a failed use.
    func explainUse(_ error: TPMError, _ use: KeyUse<some KeyCommand>) async -> KeystoreError {
        if let kept = use.authorization {
            guard error.command == .sign, [.badAuth, .authFail].contains(error.responseCode?.base)
            else {
                return await explainRevocable(error, kept, use.root)
            }
            return .damaged(
                "the key's authorization belongs to another key", underlying: .init(error))
        }
        switch (error.command, error.responseCode?.base) {
        case (.policySecret, .badAuth), (.policySecret, .authFail),
            (.policySecret, .authUnavailable):
            guard let pin = use.protection.brokerPIN else { break }
            return await explainUserPIN(error, pin)
        case (.policyNV, _?): return await explainCounter(error, use)
        case (.policySigned, .signature), (.policySigned, .expired), (.sign, .expired),
            (.unseal, .expired),
            (.hmac, .expired):
            return KeystoreError(
                code: .transient,
                reason: "the TPM rejected the presence broker's approval, or the approval expired",
                recovery:
                    "Try again. If it fails again, ask an administrator to check latchkey-presenced.",
                underlying: .init(error))
        case (.contextLoad, _?):
            return KeystoreError(
                code: .transient, reason: "the TPM was reset during the fingerprint prompt",
                recovery: "Try again.", underlying: .init(error))
        default: break
        }
        return await explainResponse(error, use.root, hasPIN: use.protection.pinSalt != nil)
    }

    /// Reads the counter in an audited session: the error response of PolicyNV is not
    /// authenticated.
    private func explainCounter(
        _ error: TPMError, _ use: KeyUse<some KeyCommand>
    ) async -> KeystoreError {
        guard let counter = use.protection.finger?.counter else { return KeystoreError(error) }
        do {
            let value = try await device.run { (tpm) throws(TPMError) in
                try tpm.provenBytes(of: counter.index, under: use.root)
            }
            guard value == counter.bytes else { return .fingersChanged(underlying: error) }
            return KeystoreError(
                TPMError(
                    .forged, command: error.command,
                    reason: "it says that the counter changed, but the TPM proved that it did not"))
        } catch {
            return await explainResponse(error, use.root, hasPIN: false)
        }
    }

    /// Explains an error response, after reading further state from the TPM where the response code
    /// alone is ambiguous.
    func explainResponse(
        _ error: TPMError, _ root: StorageRoot, hasPIN: Bool
    ) async -> KeystoreError {
        do throws(KeystoreError) {
            switch (error.command, error.responseCode?.base) {
            // The owner's seed derives another storage root key.
            case (.createPrimary, nil) where error.kind == .forged:
                return Self.otherTPM(underlying: error)
            case (.createPrimary, .badAuth), (.createPrimary, .authFail):
                return await explainDiscovery(error)
            case (_, .lockout):
                return .lockedOut(try await lockoutStatus(), underlying: error)
            case (.load, .integrity), (.load, .binding), (.load, .attributes), (.load, .size),
                (.load, .value),
                (.load, .type), (.load, .handle), (.load, .hash), (.load, .scheme), (.load, .key),
                (.load, .eccPoint):
                guard try await hasRoot(named: root.name) else {
                    return Self.otherTPM(underlying: error)
                }
                return .damaged(
                    "the TPM rejected the stored bytes of the key or secret",
                    underlying: .init(error))
            case (.load, .badAuth), (.load, .authFail), (.create, .badAuth), (.create, .authFail):
                return try await explainRefusedRoot(error, root)
            case (.getCapability, .badAuth),
                (.getCapability, .authFail),
                (.nvUndefineSpace, .badAuth), (.nvUndefineSpace, .authFail),
                (.startAuthSession, .handle),
                (.startAuthSession, .value), (.startAuthSession, .key),
                (.startAuthSession, .attributes), (.startAuthSession, .type):
                return try await hasRoot(named: root.name)
                    ? KeystoreError(error) : Self.otherTPM(underlying: error)
            case (_, .authFail), (_, .badAuth):
                return hasPIN
                    ? .wrongPIN(try await lockoutStatus(hasFailed: true), underlying: error)
                    : KeystoreError(error)
            default: return KeystoreError(error)
            }
        } catch {
            return error
        }
    }
}
