internal import Latchkey
internal import TPM2

/// One use of an object, by each kind of proof.
extension TPM {
    /// What came of a use: its result, and what lets the next one do without a person.
    typealias Performed<R> = (result: R, ticket: ProofTicket?)

    /// By the object's own authValue: StartAuthSession, Load, the use, FlushContext. Where an index keeps that,
    /// `authValue` is the index's, and NV_Read comes before the use.
    ///
    /// Load is authorized by the session too, though its parent has no authValue: a TPM that does not hold the pinned
    /// key can't know the salt and fails there, before anything that is derived from a PIN is sent.
    func perform<R>(
        _ use: KeyUse, with authValue: AuthValue, _ body: TPMKeystore.UseBody<R>
    ) throws(TPMError) -> Performed<R> {
        try withStorageRoot(use.root) { (parent) throws(TPMError) in
            try withSession(.hmac, saltedTo: parent) { (session) throws(TPMError) in
                try load(use, under: parent, authorizedBy: .continuing(session)) { (object) throws(TPMError) in
                    (try perform(use, with: authValue, in: session, with: object, body), nil)
                }
            }
        }
    }

    /// What is left to do after the PIN: NV_Read where an index keeps the authValue, the use.
    func perform<R>(
        _ use: KeyUse, with authValue: AuthValue, in session: Session, with object: TPMObject,
        _ body: TPMKeystore.UseBody<R>
    ) throws(TPMError) -> R {
        var own = authValue
        if let kept = use.authorization {
            own = try self.authValue(
                in: kept, boundTo: use.blob.binding,
                authorizedBy: .continuing(session, authValue: authValue, protecting: .encrypt))
        }
        return try body(self, object) { [own] in .lastUse(of: session, authValue: own, protecting: $0) }
    }

    /// By the user's own PIN: StartAuthSession twice, PolicySecret, and as for a ticket.
    func perform<R>(
        _ use: KeyUse, withUserPIN authValue: AuthValue, _ body: TPMKeystore.UseBody<R>
    ) throws(TPMError) -> Performed<R> {
        try withPolicySession(use, body) { (session, parent) throws(TPMError) in
            try prove(authValue, use, parent, session)
        }
    }

    /// By an earlier proof: StartAuthSession, PolicyTicket, Load, PolicyOR where there are branches, PolicyAuthValue, the
    /// use, FlushContext.
    func perform<R>(
        _ use: KeyUse, by ticket: ProofTicket, _ body: TPMKeystore.UseBody<R>
    ) throws(TPMError) -> Performed<R> {
        try withPolicySession(use, body) { (session, _) throws(TPMError) in
            if ticket.isFinger { try checkCounter(use, session) }
            try policyTicket(
                ticket.ticket, for: Approval(policyRef: ticket.reference), by: ticket.authority, in: session)
            return nil
        }
    }

    /// By the broker's approval for a session that was out of the TPM meanwhile: Load, ContextLoad, and what
    /// ``perform(_:by:in:with:_:)`` does, FlushContext.
    ///
    /// Load comes first: where it finds no place, the session is as it was, and the visit may begin again.
    func perform<R>(
        _ use: KeyUse, by approval: PresenceApproval, in suspended: SuspendedSession, _ body: TPMKeystore.UseBody<R>
    ) throws(TPMError) -> Performed<R> {
        try withStorageRoot(use.root) { (parent) throws(TPMError) in
            try load(use, under: parent) { (object) throws(TPMError) in
                try withResumed(suspended) { (session) throws(TPMError) in
                    try perform(use, by: approval, in: session, with: object, body)
                }
            }
        }
    }

    /// The commands after the finger: PolicySigned, PolicyOR where there are branches, PolicyAuthValue where the
    /// proof is reusable, the use.
    func perform<R>(
        _ use: KeyUse, by approval: PresenceApproval, in session: Session, with object: TPMObject,
        _ body: TPMKeystore.UseBody<R>
    ) throws(TPMError) -> Performed<R> {
        let ticket = try assert(approval, use, session)
        return (try perform(use, in: session, with: object, body), ticket)
    }

    /// A session for the broker's approval, which waits for it.
    func approvalSession(for use: KeyUse) throws(TPMError) -> Session {
        guard use.needsSalt else { return try startAuthSession(.policy, saltedTo: nil) }
        return try withStorageRoot(use.root) { (parent) throws(TPMError) in
            try startAuthSession(.policy, saltedTo: parent)
        }
    }

    private func withPolicySession<R>(
        _ use: KeyUse, _ body: TPMKeystore.UseBody<R>,
        _ satisfy: (Session, TPMObject) throws(TPMError) -> ProofTicket?
    ) throws(TPMError) -> Performed<R> {
        try withStorageRoot(use.root) { (parent) throws(TPMError) in
            try withSession(.policy, saltedTo: use.needsSalt ? parent : nil) { (session) throws(TPMError) in
                let ticket = try satisfy(session, parent)
                return try load(use, under: parent) { (object) throws(TPMError) in
                    (try perform(use, in: session, with: object, body), ticket)
                }
            }
        }
    }

    /// In a session that has satisfied one branch of the object's policy.
    private func perform<R>(
        _ use: KeyUse, in session: Session, with object: TPMObject, _ body: TPMKeystore.UseBody<R>
    ) throws(TPMError) -> R {
        let branches = try use.protection?.branches(under: use.policy) ?? []
        if branches.count > 1 { try policyOR(branches, in: session) }
        guard let own = use.protection?.ownAuthValue else {
            return try body(self, object) { .lastUse(of: session, protecting: $0) }
        }
        try policyAuthValue(session)
        return try body(self, object) { .lastUse(of: session, authValue: own, protecting: $0) }
    }

    private func load<R>(
        _ use: KeyUse, under parent: TPMObject, authorizedBy authorization: Authorization = .emptyPassword,
        _ body: (TPMObject) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        try withLoaded(
            use.blob.key.privatePart, use.blob.key.publicArea, under: parent, authorizedBy: authorization, body)
    }
}

/// What satisfies a branch of a policy.
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
        guard use.isReusable else { return nil }
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
        let reference = PresenceReference.pin(under: use.policy)
        let ticket = try withSession(.hmac, saltedTo: parent) { (proof) throws(TPMError) in
            try policySecret(
                Approval(
                    nonceTPM: session.nonceTPM, expiration: -Int32(use.policy.reuseSeconds),
                    commandHash: try use.commandHash, policyRef: reference),
                of: pin.index, authorizedBy: .lastUse(of: proof, authValue: authValue), in: session)
        }
        guard use.isReusable else { return nil }
        return ProofTicket(ticket: ticket, authority: pin.index.name, reference: reference, isFinger: false)
    }
}

extension KeyUse {
    /// Whether the proof of this use serves for some seconds.
    fileprivate var isReusable: Bool { policy.reuseSeconds > 0 }

    /// Whether the policy session must have a secret, which takes a salt. What is opened must come back encrypted. And a
    /// proof that serves for some seconds names no command: only the session's HMAC keeps whoever owns the bus from
    /// having another digest signed with it. Else the proof names the session and the command, and what is signed and
    /// the signature are no secrets.
    fileprivate var needsSalt: Bool { use == .unseal || isReusable }

    /// The cpHash of the use, so that a proof serves nothing else; empty where it serves for some seconds.
    fileprivate var commandHash: [UInt8] {
        get throws(TPMError) {
            guard !isReusable else { return [] }
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
