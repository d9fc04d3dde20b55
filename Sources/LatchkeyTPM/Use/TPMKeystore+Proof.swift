internal import FoundationEssentials
internal import Latchkey
internal import TPM2

extension TPMKeystore {
    /// Asks for what the object's policy wants, after everything that can fail without a person was looked at.
    func proof(for use: KeyUse, _ presence: any PresenceAuthority) async throws(KeystoreError) -> PresenceProof {
        switch use.policy.requirement {
        case .none: return .authValue(try ownValue(nil, for: use))
        case .pin: return try await pinProof(for: use, await pinStatus(for: use), presence)
        case .biometryAny, .biometryCurrentSet: return try await fingerProof(for: use, presence)
        case .userPresence: return try await eitherProof(for: use, presence)
        }
    }

    private func eitherProof(
        for use: KeyUse, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> PresenceProof {
        if presence.preference == .finger { return try await fingerProof(for: use, presence) }
        let status = try await pinStatus(for: use)
        guard let broker = presence.broker?.approvals, presence.preference == .any else {
            return try await pinProof(for: use, status, presence)
        }
        // A locked PIN is no reason not to look at the finger.
        guard !status.isLockedOut else { return try await fingerProof(for: use, presence) }
        guard await isCurrent(use, broker) else { return try await pinProof(for: use, status, presence) }
        return try await proof(for: use) { (finger) async throws(KeystoreError) in
            try await presence.offer(
                finger, to: broker,
                or: PINRequest(purpose: .current, context: use.prompt, attemptsLeft: status.attemptsLeft))
        }
    }

    private func fingerProof(
        for use: KeyUse, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> PresenceProof {
        guard let broker = presence.broker?.approvals else {
            throw KeystoreError(
                operation: use.operation, code: .unavailable, reason: "this program can't reach the presence broker",
                recovery: "Install and start latchkey-presenced.")
        }
        try await checkCurrent(use, broker)
        return try await proof(for: use) { (finger) async throws(KeystoreError) in
            PresenceAnswer(try await broker.approve(finger))
        }
    }

    /// Prepares a session for a finger, has the person asked, and gives the session up unless it was the finger.
    private func proof(
        for use: KeyUse, _ ask: (ApprovalRequest) async throws(KeystoreError) -> PresenceAnswer
    ) async throws(KeystoreError) -> PresenceProof {
        let session = try await preparedSession(for: use)
        do throws(KeystoreError) {
            let answer = try await ask(request(for: use, in: session))
            let proof = try proof(answer, in: session, for: use)
            if case .approval = proof { return proof }
            await abandon(session)
            return proof
        } catch {
            await abandon(session)
            throw error
        }
    }

    private func proof(
        _ answer: PresenceAnswer, in session: PreparedSession, for use: KeyUse
    ) throws(KeystoreError) -> PresenceProof {
        switch answer {
        case .approved(let approval) where !Task.isCancelled: .approval(session, approval)
        case .pin(let pin) where !Task.isCancelled: try proof(pin, for: use)
        case .approved, .pin: throw .cancelled(use.operation)
        case .notRecognised: throw .wrongFinger(use.operation)
        case .declined(let why): throw .cancelled(use.operation, why)
        }
    }

    /// Whether the broker can approve this use as it is now. What it says decides what is asked for, and nothing else.
    private func isCurrent(_ use: KeyUse, _ broker: any ApprovalService) async -> Bool {
        do {
            try await checkCurrent(use, broker)
            return true
        } catch {
            return false
        }
    }

    /// Tells a person what has changed, before a finger is asked for in vain.
    private func checkCurrent(_ use: KeyUse, _ broker: any ApprovalService) async throws(KeystoreError) {
        guard let finger = use.protection?.finger else {
            throw .damaged(use.operation, "it has no branch for a finger")
        }
        let terms: PresenceTerms
        do throws(KeystoreError) {
            terms = try await broker.terms(for: use.policy)
        } catch {
            // Where no finger is left, those of the key's birth are gone.
            guard error.code == .notEnrolled, finger.enrolmentSet != nil else { throw error }
            throw .fingersChanged(use.operation)
        }
        guard terms.user == finger.user else {
            throw KeystoreError(
                operation: use.operation, code: .refused, reason: "it belongs to another user of this machine",
                recovery: "Use it as the user who made it.")
        }
        guard Data(finger.authority.marshalled) == terms.authority else {
            throw KeystoreError(
                operation: use.operation, code: .invalidated,
                reason: "the presence broker has another key than when it was made",
                recovery: "Use the PIN where the key has one; else delete it and set it up again.")
        }
        let counter = terms.counter.map { $0.value }
        guard finger.enrolmentSet == nil || finger.enrolmentSet.map({ Data($0) }) == terms.enrolmentSet,
            finger.counter == nil || finger.counter?.value == counter
        else { throw .fingersChanged(use.operation) }
    }

    private func pinProof(
        for use: KeyUse, _ status: PINStatus, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> PresenceProof {
        guard !status.isLockedOut else {
            throw use.protection?.userPIN == nil
                ? .lockedOut(use.operation, status) : .userPINLocked(use.operation)
        }
        if let kept = use.authorization { try await checkStanding([kept], under: use.root, use.operation) }
        // A user's own PIN is proven to an index: there the session that it takes has a policy to satisfy besides.
        guard device.isShared, use.protection?.userPIN == nil else {
            return try proof(await currentPIN(status, use.prompt, use.operation, presence), for: use)
        }
        return try await primedProof(for: use, status, presence)
    }

    /// Behind a resource manager everything is loaded before the PIN is asked for (StartAuthSession, Load), and one
    /// command and the flush are left after it, or two for a key that can be taken back.
    private func primedProof(
        for use: KeyUse, _ status: PINStatus, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> PresenceProof {
        let held: HeldUse
        do {
            held = try await device.hold { (tpm) throws(TPMError) in try tpm.primeForPIN(use) }
        } catch {
            throw await explained(error, use)
        }
        do throws(KeystoreError) {
            let pin = try await currentPIN(status, use.prompt, use.operation, presence)
            return .primed(held, try ownValue(pin, for: use))
        } catch {
            await device.drop(held)
            throw error
        }
    }

    private func pinStatus(for use: KeyUse) async throws(KeystoreError) -> PINStatus {
        guard let pin = use.protection?.userPIN else { return try await lockoutState(use.operation).status }
        return try await status(of: pin, use.operation)
    }

    private func proof(_ pin: PIN, for use: KeyUse) throws(KeystoreError) -> PresenceProof {
        do {
            if let index = use.protection?.userPIN { return .userPIN(try index.authValue(pin)) }
        } catch {
            throw KeystoreError(error, during: use.operation)
        }
        return .authValue(try ownValue(pin, for: use))
    }

    /// What authorizes an object that has no policy, or reads the index that keeps that.
    private func ownValue(_ pin: PIN?, for use: KeyUse) throws(KeystoreError) -> AuthValue {
        guard let kept = use.authorization else {
            return try authValue(pin, salt: use.blob.pinSalt, boundTo: use.blob.binding, use.operation)
        }
        do {
            return try kept.authValue(pin)
        } catch {
            throw KeystoreError(error, during: use.operation)
        }
    }

    private func request(for use: KeyUse, in session: PreparedSession) throws(KeystoreError) -> ApprovalRequest {
        do {
            return ApprovalRequest(
                use: use.use, keyName: Data(try use.blob.key.publicArea.name.bytes), nonceTPM: Data(session.nonceTPM),
                policy: use.policy, context: use.prompt)
        } catch {
            throw KeystoreError(error, during: use.operation)
        }
    }

    /// A session for the broker's approval. Without a resource manager it is out of the TPM while the person is waited
    /// for (StartAuthSession, ContextSave); with one the object is loaded meanwhile too (StartAuthSession, Load).
    private func preparedSession(for use: KeyUse) async throws(KeystoreError) -> PreparedSession {
        do {
            if device.isShared { return .held(try await device.hold { (tpm) throws(TPMError) in try tpm.prime(use) }) }
            return .suspended(
                try await device.visit { (tpm) throws(TPMError) in
                    let session = try tpm.approvalSession(for: use)
                    do throws(TPMError) {
                        return try tpm.suspend(session)
                    } catch {
                        try? tpm.flushContext(session.handle)
                        throw error
                    }
                })
        } catch {
            throw await explained(error, use)
        }
    }
}

extension TPM {
    /// As for ``perform(_:with:_:)``, Load is authorized by the session, which fails where the TPM does not hold the
    /// pinned key.
    fileprivate func primeForPIN(_ use: KeyUse) throws(TPMError) -> (session: Session, object: TPMObject) {
        try withStorageRoot(use.root) { (parent) throws(TPMError) in
            let session = try startAuthSession(.hmac, saltedTo: parent)
            let object = try load(
                use.blob.key.privatePart, use.blob.key.publicArea, under: parent, authorizedBy: .continuing(session))
            return (session, object)
        }
    }

    fileprivate func prime(_ use: KeyUse) throws(TPMError) -> (session: Session, object: TPMObject) {
        let session = try approvalSession(for: use)
        let object = try withStorageRoot(use.root) { (parent) throws(TPMError) in
            try load(use.blob.key.privatePart, use.blob.key.publicArea, under: parent)
        }
        return (session, object)
    }
}

extension KeystoreError {
    static func wrongFinger(_ operation: String) -> KeystoreError {
        KeystoreError(
            operation: operation, code: .wrongProof, reason: "the finger is not one of yours",
            recovery: "Try again with a finger that you enrolled.")
    }
}

/// What is shown to the TPM so that it uses an object once.
enum PresenceProof: Sendable {
    /// The object's own authValue; empty where it asks for nothing.
    case authValue(AuthValue)
    /// The same, for a session and an object that were loaded while the person was asked.
    case primed(HeldUse, AuthValue)
    /// The user's own PIN.
    case userPIN(AuthValue)
    /// The broker's approval for a session that waited meanwhile.
    case approval(PreparedSession, PresenceApproval)
    /// An earlier proof, within its time.
    case ticket(ProofTicket)
}

/// A session that waits for the broker's approval while a person is asked.
enum PreparedSession: Sendable {
    /// Out of the TPM, over no connection: what a device without a resource manager must have.
    case suspended(SuspendedSession)
    /// Behind a resource manager, with the object loaded: two commands are left after the finger.
    case held(HeldUse)

    /// What the approval is bound to.
    var nonceTPM: [UInt8] {
        switch self {
        case .suspended(let session): session.nonceTPM
        case .held(let use): use.nonceTPM
        }
    }
}
