internal import FoundationEssentials
internal import Latchkey
internal import Synchronization
internal import TPM2

extension TPMKeystore {
    /// Obtains the proof that the object's policy requires. Checks that need no user come before
    /// the prompt.
    func obtainProof(for use: KeyUse<some KeyCommand>, _ presence: any PresenceAuthority)
        async throws(KeystoreError)
        -> PresenceProof
    {
        switch use.policy.requirement {
        case .none: return .authValue(try ownValue(nil, for: use))
        case .pin: return try await pinProof(for: use, await status(of: use.protection), presence)
        case .biometryAny, .biometryCurrentSet: return try await fingerProof(for: use, presence)
        case .userPresence: return try await eitherProof(for: use, presence)
        }
    }

    private func eitherProof(
        for use: KeyUse<some KeyCommand>, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> PresenceProof {
        if presence.preference == .finger { return try await fingerProof(for: use, presence) }
        let status = try await status(of: use.protection)
        guard let broker = presence.broker?.approvals, presence.preference == .any else {
            return try await pinProof(for: use, status, presence)
        }
        // A locked PIN does not prevent the use of a finger.
        guard !status.isLockedOut else { return try await fingerProof(for: use, presence) }
        // The result of the check only selects the prompt.
        guard (try? await checkCurrent(use, broker)) != nil else {
            return try await pinProof(for: use, status, presence)
        }
        return try await approvalProof(for: use) { (finger) async throws(KeystoreError) in
            try await presence.offer(
                finger, to: broker,
                or: PINRequest(
                    purpose: .current, context: use.prompt, attemptsLeft: status.attemptsLeft))
        }
    }

    private func fingerProof(
        for use: KeyUse<some KeyCommand>, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> PresenceProof {
        guard let broker = presence.broker?.approvals else {
            throw KeystoreError(
                code: .unavailable, reason: "this program cannot reach the presence broker",
                recovery: "Install and start latchkey-presenced.")
        }
        try await checkCurrent(use, broker)
        return try await approvalProof(for: use) { (finger) async throws(KeystoreError) in
            PresenceAnswer(try await broker.approve(finger))
        }
    }

    /// Opens a session for an approval, prompts, and discards the session unless the answer is an
    /// approval.
    private func approvalProof(
        for use: KeyUse<some KeyCommand>,
        _ ask: (ApprovalRequest) async throws(KeystoreError) -> PresenceAnswer
    ) async throws(KeystoreError) -> PresenceProof {
        let session = try await preparedSession(for: use)
        do throws(KeystoreError) {
            let answer = try await ask(request(for: use, in: session))
            let proof = try proof(from: answer, in: session, for: use)
            if case .approval = proof { return proof }
            await abandon(session)
            return proof
        } catch {
            await abandon(session)
            throw error
        }
    }

    private func proof(
        from answer: PresenceAnswer, in session: PreparedSession, for use: KeyUse<some KeyCommand>
    ) throws(KeystoreError) -> PresenceProof {
        switch answer {
        case .approved(let approval) where !Task.isCancelled: .approval(session, approval)
        case .pin(let pin) where !Task.isCancelled: try knowledgeProof(of: pin, for: use)
        case .approved, .pin: throw .cancelled()
        case .notRecognised: throw .otherFinger()
        case .declined(let why): throw .cancelled(why)
        }
    }

    /// Reports changes that make an approval impossible, before the prompt.
    func checkCurrent(_ use: KeyUse<some KeyCommand>, _ broker: any ApprovalService)
        async throws(KeystoreError)
    {
        guard let finger = use.protection.finger else {
            throw .damaged("the policy of the key or secret has no branch for a fingerprint")
        }
        let terms: PresenceTerms
        do throws(KeystoreError) {
            terms = try await broker.terms(for: use.policy)
        } catch {
            // No finger is enrolled, so the fingers of the key's creation are gone.
            guard error.code == .notEnrolled, finger.enrolmentSet != nil else { throw error }
            throw .fingersChanged()
        }
        guard terms.user == finger.user else {
            throw KeystoreError(
                code: .refused, reason: "the key or secret belongs to another user of this machine",
                recovery: "Use it as the user who created it.")
        }
        guard Data(finger.authority.marshalled) == terms.authority else {
            guard try await hasRoot(named: use.root.name) else { throw Self.otherTPM() }
            throw KeystoreError(
                code: .invalidated,
                reason: "the presence broker's key has changed since the key or secret was created",
                recovery:
                    "Use the PIN if the policy allows it, or delete the key or secret and create it again."
            )
        }
        let counter = terms.counter.map { $0.value }
        guard
            finger.enrolmentSet == nil
                || finger.enrolmentSet.map({ Data($0) }) == terms.enrolmentSet,
            finger.counter == nil || finger.counter?.value == counter
        else { throw .fingersChanged() }
    }

    private func pinProof(
        for use: KeyUse<some KeyCommand>, _ status: PINStatus, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> PresenceProof {
        guard !status.isLockedOut else {
            throw use.protection.brokerPIN == nil
                ? .lockedOut(status) : .userPINLocked()
        }
        // The PIN of an index is proven in its own session, so the object cannot be loaded before
        // the prompt.
        if device.isShared, use.protection.userPIN == nil {
            return try await primedProof(for: use, status, presence)
        }
        if let kept = use.authorization {
            try await checkExisting([kept], under: use.root)
        } else {
            try await checkHardware(of: use.root, before: presence)
        }
        return try knowledgeProof(
            of: await askForCurrentPIN(status, use.prompt, presence), for: use)
    }

    /// Loads the object before the PIN prompt, which requires a resource manager (StartAuthSession,
    /// Load). One command and the flush remain after the prompt, or two for a revocable key.
    private func primedProof(
        for use: KeyUse<some KeyCommand>, _ status: PINStatus, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> PresenceProof {
        let held: HeldUse
        do {
            held = try await device.hold { (tpm) throws(TPMError) in try tpm.primeForPIN(use) }
        } catch {
            throw await explainUse(error, use)
        }
        do throws(KeystoreError) {
            let pin = try await askForCurrentPIN(status, use.prompt, presence)
            return .primed(held, try ownValue(pin, for: use))
        } catch {
            await device.drop(held)
            throw error
        }
    }

    /// The proof of the PIN of an index, or of the object's own PIN.
    private func knowledgeProof(
        of pin: PIN, for use: KeyUse<some KeyCommand>
    ) throws(KeystoreError) -> PresenceProof {
        guard let index = use.protection.userPIN else {
            return .authValue(try ownValue(pin, for: use))
        }
        return .userPIN(
            try KeystoreError.explaining { () throws(TPMError) in
                guard let kept = use.authorization else { return try index.authValue(pin) }
                return try kept.authValue(pin)
            })
    }

    /// The authValue of an object without a policy, or of the index of a revocable key.
    private func ownValue(
        _ pin: PIN?, for use: KeyUse<some KeyCommand>
    ) throws(KeystoreError) -> AuthValue {
        try KeystoreError.explaining { () throws(TPMError) in
            if let kept = use.authorization { return try kept.authValue(pin) }
            return try use.protection.authValue(pin, boundTo: use.blob.binding)
        }
    }

    func request(
        for use: KeyUse<some KeyCommand>, in session: PreparedSession
    ) -> ApprovalRequest {
        ApprovalRequest(
            use: use.request, keyName: Data(use.command.key.name.bytes),
            nonceTPM: Data(session.nonceTPM), policy: use.policy, context: use.prompt)
    }

    /// Opens a session for the broker's approval. Without a resource manager the session is
    /// suspended during the prompt (StartAuthSession, ContextSave). With one, the object is loaded
    /// too (StartAuthSession, Load).
    func preparedSession(for use: KeyUse<some KeyCommand>) async throws(KeystoreError)
        -> PreparedSession
    {
        do {
            if device.isShared {
                return .held(try await device.hold { (tpm) throws(TPMError) in try tpm.prime(use) })
            }
            return .suspended(
                try await device.run { (tpm) throws(TPMError) in
                    let session = try tpm.approvalSession(for: use)
                    do throws(TPMError) {
                        return try tpm.suspend(session)
                    } catch {
                        try? tpm.execute(FlushContext(session.handle))
                        throw error
                    }
                })
        } catch {
            throw await explainUse(error, use)
        }
    }
}

extension TPM {
    /// The session authorizes Load for the reason that ``use(_:authValue:)`` states.
    fileprivate func primeForPIN(_ use: KeyUse<some KeyCommand>) throws(TPMError) -> (
        session: Session, object: TPMObject
    ) {
        try withStorageRoot(use.root) { (parent) throws(TPMError) in
            let session = try execute(StartAuthSession(.hmac, saltedTo: parent))
            let object = try execute(
                Load(use.blob.key.privatePart, use.blob.key.publicArea, under: parent),
                authorizedBy: .continuing(session))
            return (session, object)
        }
    }

    fileprivate func prime(_ use: KeyUse<some KeyCommand>) throws(TPMError) -> (
        session: Session, object: TPMObject
    ) {
        let session = try approvalSession(for: use)
        let object = try withStorageRoot(use.root) { (parent) throws(TPMError) in
            try execute(Load(use.blob.key.privatePart, use.blob.key.publicArea, under: parent))
        }
        return (session, object)
    }
}

/// A proof for one use of an object.
enum PresenceProof: Sendable {
    /// The authValue of the object, empty for the policy `none`, or of its index.
    case authValue(AuthValue)
    /// The same, for a session and an object that were loaded before the prompt.
    case primed(HeldUse, AuthValue)
    /// The user's PIN, which an index of the presence broker checks.
    case userPIN(AuthValue)
    /// The broker's approval for a waiting session.
    case approval(PreparedSession, PresenceApproval)
    /// An earlier proof that has not expired.
    case ticket(ProofTicket)

    /// Whether the proof is the answer to a prompt for a PIN, for an object with a policy.
    var isKnowledge: Bool {
        switch self {
        case .authValue, .primed, .userPIN: true
        case .approval, .ticket: false
        }
    }
}

/// A session that waits for the broker's approval during the prompt.
enum PreparedSession: Sendable {
    /// Suspended, without a connection. Used without a resource manager.
    case suspended(SuspendedSession)
    /// On an open connection of a resource manager, with the object loaded. Two commands remain
    /// after the approval.
    case held(HeldUse)

    /// The nonce to which the approval is bound.
    var nonceTPM: [UInt8] {
        switch self {
        case .suspended(let session): session.nonceTPM
        case .held(let use): use.nonceTPM
        }
    }
}

/// The tickets of one keystore, by their scope: the kind of object and the digest of its policy.
final class TicketCache: Sendable {
    private struct State {
        var tickets: [[UInt8]: ProofTicket] = [:]
        var generation = 0
    }

    private let state = Mutex(State())

    /// The number of times that the cache was emptied.
    var generation: Int { state.withLock { $0.generation } }

    subscript(scope: [UInt8]) -> ProofTicket? { state.withLock { $0.tickets[scope] } }

    /// Stores a ticket unless the cache was emptied since `generation`, when its proof began.
    func store(_ ticket: ProofTicket, for scope: [UInt8], since generation: Int) {
        state.withLock { state in
            if state.generation == generation { state.tickets[scope] = ticket }
        }
    }

    func discard(_ scope: [UInt8]) {
        state.withLock { $0.tickets[scope] = nil }
    }

    func empty() {
        state.withLock { state in
            state.tickets = [:]
            state.generation += 1
        }
    }
}

/// A proof that is valid for some seconds of the TPM's clock. It crosses the bus in plain text, so
/// a key that accepts it also requires ``PresenceProtection/authValue``.
struct ProofTicket: Sendable {
    let ticket: ApprovalTicket
    /// The Name of the broker's key, or of the index of a user's PIN.
    let authority: TPMName
    let reference: [UInt8]
    let isFinger: Bool
}
