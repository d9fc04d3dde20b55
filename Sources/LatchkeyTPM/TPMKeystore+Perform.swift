internal import Latchkey
internal import TPM2

extension TPMKeystore {
    /// How an object's one use is authorized, for a command that has its parameters protected as given.
    typealias UseAuthorization = (SessionAttributes) -> Authorization
    typealias UseBody<R> = @Sendable (TPM, TPMObject, UseAuthorization) throws(TPMError) -> R

    /// Obtains the proof that the object's policy asks for, and uses the object once.
    func perform<R: Sendable>(
        _ use: KeyUse, authorizedBy presence: any PresenceAuthority, _ body: UseBody<R>
    ) async throws(KeystoreError) -> R {
        if let ticket = tickets[use.blob.key.publicArea.authPolicy] {
            do {
                return try await device.visit { (tpm) throws(TPMError) in
                    try tpm.perform(use, by: .ticket(ticket), body).result
                }
            } catch {
                // Its time is over, or the TPM was reset: the person is asked again.
                guard error.command == .policyTicket else { throw await explained(error, use) }
                tickets[use.blob.key.publicArea.authPolicy] = nil
            }
        }
        let proof = try await proof(for: use, presence)
        do {
            let done: Done<R>
            switch proof {
            case .approval(.held(let held), let approval):
                done = try await device.use(held) { (tpm, session, object) throws(TPMError) in
                    try tpm.perform(use, by: approval, object, session, body)
                }
            default: done = try await device.visit { (tpm) throws(TPMError) in try tpm.perform(use, by: proof, body) }
            }
            if let ticket = done.ticket { tickets[use.blob.key.publicArea.authPolicy] = ticket }
            return done.result
        } catch {
            if case .approval(let session, _) = proof { await abandon(session) }
            throw await explained(error, use)
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

/// What came of a use: its result, and what lets the next one do without a person.
private typealias Done<R> = (result: R, ticket: ProofTicket?)

extension TPM {
    fileprivate func perform<R>(
        _ use: KeyUse, by proof: PresenceProof, _ body: TPMKeystore.UseBody<R>
    ) throws(TPMError) -> Done<R> {
        try withStorageRoot(use.root) { (parent) throws(TPMError) in
            switch proof {
            case .authValue(let authValue):
                return (try perform(use, with: authValue, under: parent, body), nil)
            case .userPIN(let authValue):
                return try withPolicySession(use, parent, body) { (session) throws(TPMError) in
                    try prove(authValue, use, parent, session)
                }
            case .ticket(let ticket):
                return try withPolicySession(use, parent, body) { (session) throws(TPMError) in
                    if ticket.isFinger { try checkCounter(use, session) }
                    try policyTicket(
                        ticket.ticket, for: Approval(policyRef: ticket.reference), by: ticket.authority, in: session)
                    return nil
                }
            case .approval(.suspended(let suspended), let approval):
                return try load(use, under: parent) { (object) throws(TPMError) in
                    try withResumed(suspended) { (session) throws(TPMError) in
                        try perform(use, by: approval, object, session, body)
                    }
                }
            case .approval(.held, _):
                throw TPMError(.unsupported, reason: "what is held is used over its own connection")
            }
        }
    }

    /// What is left to do after the finger: PolicySigned, PolicyOR where there are branches, the use.
    fileprivate func perform<R>(
        _ use: KeyUse, by approval: PresenceApproval, _ object: TPMObject, _ session: Session,
        _ body: TPMKeystore.UseBody<R>
    ) throws(TPMError) -> Done<R> {
        let ticket = try assert(approval, use, session)
        return try finish(use, ticket, object, session, body)
    }

    /// Uses an object with its own authValue: StartAuthSession, Load, the use, FlushContext.
    ///
    /// Load is authorized by the session too, though its parent has no authValue: a TPM that does not hold the pinned
    /// key can't know the salt and fails there, before anything that is derived from a PIN is sent.
    private func perform<R>(
        _ use: KeyUse, with authValue: AuthValue, under parent: TPMObject, _ body: TPMKeystore.UseBody<R>
    ) throws(TPMError) -> R {
        try withSession(.hmac, saltedTo: parent) { (session) throws(TPMError) in
            try load(use, under: parent, authorizedBy: .continuing(session)) { (object) throws(TPMError) in
                try body(self, object) { .lastUse(of: session, authValue: authValue, protecting: $0) }
            }
        }
    }

    private func withPolicySession<R>(
        _ use: KeyUse, _ parent: TPMObject, _ body: TPMKeystore.UseBody<R>,
        _ satisfy: (Session) throws(TPMError) -> ProofTicket?
    ) throws(TPMError) -> Done<R> {
        try withSession(.policy, saltedTo: use.use == .unseal ? parent : nil) { (session) throws(TPMError) in
            let ticket = try satisfy(session)
            return try load(use, under: parent) { (object) throws(TPMError) in
                try finish(use, ticket, object, session, body)
            }
        }
    }

    private func finish<R>(
        _ use: KeyUse, _ ticket: ProofTicket?, _ object: TPMObject, _ session: Session,
        _ body: TPMKeystore.UseBody<R>
    ) throws(TPMError) -> Done<R> {
        let branches = try use.protection?.branches(under: use.policy) ?? []
        if branches.count > 1 { try policyOR(branches, in: session) }
        return (try body(self, object) { .lastUse(of: session, protecting: $0) }, ticket)
    }

    private func load<R>(
        _ use: KeyUse, under parent: TPMObject, authorizedBy authorization: Authorization = .emptyPassword,
        _ body: (TPMObject) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        try withLoaded(
            use.blob.key.privatePart, use.blob.key.publicArea, under: parent, authorizedBy: authorization, body)
    }
}

extension TPM {
    /// Has the TPM take the broker's word.
    private func assert(
        _ given: PresenceApproval, _ use: KeyUse, _ session: Session
    ) throws(TPMError) -> ProofTicket? {
        guard let finger = use.protection?.finger else {
            throw TPMError(.unsupported, reason: "the key has no branch for a finger")
        }
        try checkCounter(use, session)
        let reference = finger.reference(under: use.policy)
        let approval = Approval(
            nonceTPM: session.nonceTPM, expiration: given.expiration,
            commandHash: try use.commandHash, policyRef: reference)
        let ticket = try policySigned(approval, signature: TPMSignature(given.signature), by: finger, in: session)
        guard use.policy.reuseSeconds > 0 else { return nil }
        return ProofTicket(
            ticket: ticket, authority: try finger.authority.name, reference: reference, isFinger: true)
    }

    /// The broker's key is where it was, and costs no command then; else its public half is loaded for this use.
    private func policySigned(
        _ approval: Approval, signature: TPMSignature, by finger: PresenceProtection.Finger, in session: Session
    ) throws(TPMError) -> ApprovalTicket {
        if let handle = finger.handle {
            do {
                let authority = try TPMObject(handle: handle, publicArea: finger.authority)
                return try policySigned(approval, signature: signature, by: authority, in: session)
            } catch {
                // Gone, or another key is there now. Nothing has happened to the session.
                switch error.responseCode {
                case .handle?, .signature?, .type?, .scheme?, .key?: break
                default: throw error
                }
            }
        }
        let authority = try loadExternal(finger.authority, in: .owner)
        return try lending(
            { (authority) throws(TPMError) in
                try policySigned(approval, signature: signature, by: authority, in: session)
            }, authority
        ) { () throws(TPMError) in try flushContext(authority.handle) }
    }

    private func checkCounter(_ use: KeyUse, _ session: Session) throws(TPMError) {
        guard let counter = use.protection?.finger?.counter else { return }
        try policyNVEquals(counter.bytes, in: counter.index, session: session)
    }

    /// Proves the user's own PIN, in a session that is salted to the pinned storage root key.
    private func prove(
        _ authValue: AuthValue, _ use: KeyUse, _ parent: TPMObject, _ session: Session
    ) throws(TPMError) -> ProofTicket? {
        guard let pin = use.protection?.userPIN else {
            throw TPMError(.unsupported, reason: "the key has no branch for a user's own PIN")
        }
        let reuse = use.policy.reuseSeconds
        let reference = PresenceReference.pin(under: use.policy)
        let ticket = try withSession(.hmac, saltedTo: parent) { (proof) throws(TPMError) in
            try policySecret(
                Approval(
                    nonceTPM: session.nonceTPM, expiration: -Int32(reuse), commandHash: try use.commandHash,
                    policyRef: reference),
                of: pin.index, authorizedBy: .lastUse(of: proof, authValue: authValue), in: session)
        }
        guard reuse > 0 else { return nil }
        return ProofTicket(ticket: ticket, authority: pin.index.name, reference: reference, isFinger: false)
    }
}

extension KeyUse {
    /// The cpHash of the use, so that a proof serves nothing else.
    fileprivate var commandHash: [UInt8] {
        get throws(TPMError) {
            // A proof that serves for some seconds names no use.
            guard policy.reuseSeconds == 0 else { return [] }
            let name = try blob.key.publicArea.name
            return switch use {
            case .sign(let digest): TPM.signCommandHash(digest.bytes, with: name)
            case .unseal: TPM.unsealCommandHash(name)
            }
        }
    }
}

extension TPMSignature {
    init(_ signature: ECDSASignature) {
        let raw = Array(signature.rawRepresentation)
        self = .ecdsa(hash: .sha256, r: Array(raw.prefix(32)), s: Array(raw.suffix(32)))
    }
}
