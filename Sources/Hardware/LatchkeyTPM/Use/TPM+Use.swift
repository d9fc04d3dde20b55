internal import Latchkey
internal import TPM2

/// One use of an object, with each kind of proof.
extension TPM {
    /// Uses an object with its authValue: StartAuthSession, Load, the use, FlushContext. For a
    /// revocable key without a PIN, `authValue` is that of its index, and NV_Read comes before the
    /// use.
    ///
    /// The session also authorizes Load, although the parent has no authValue: a TPM without the
    /// pinned key does not know the salt and fails there, before a value derived from a PIN is
    /// sent.
    func use<C>(_ use: KeyUse<C>, authValue: AuthValue) throws(TPMError) -> C.Response {
        try withSaltedSession(under: use.root) { (session, parent) throws(TPMError) in
            try withLoadedObject(
                of: use.blob.key, under: parent, authorizedBy: .continuing(session)
            ) { (object) throws(TPMError) in
                try finish(use, authValue: authValue, in: session, object)
            }
        }
    }

    /// Sends the commands after the PIN prompt: NV_Read for the secret of an index, the use.
    func finish<C>(
        _ use: KeyUse<C>, authValue: AuthValue, in session: Session, _ object: TPMObject
    ) throws(TPMError) -> C.Response {
        var own = authValue
        if let kept = use.authorization, let binding = use.blob.binding {
            own = try self.authValue(
                in: kept, boundTo: binding,
                authorizedBy: .continuing(session, authValue: authValue, protecting: .encrypt))
        }
        return try execute(use, with: object, in: session, authValue: own)
    }

    /// Uses an object with the user's PIN: StartAuthSession twice, PolicySecret, then the commands
    /// as for a ticket.
    func use<C>(
        _ use: KeyUse<C>, userPIN authValue: AuthValue
    ) throws(TPMError) -> (response: C.Response, ticket: ProofTicket?) {
        try withPolicySession(use) { (session, parent) throws(TPMError) in
            try proveUserPIN(authValue, use, parent, session)
        }
    }

    /// Uses an object with an earlier proof: StartAuthSession, PolicyTicket, Load, PolicyOR for a
    /// policy with branches, PolicyAuthValue, the use, FlushContext.
    func use<C>(_ use: KeyUse<C>, ticket: ProofTicket) throws(TPMError) -> C.Response {
        try withPolicySession(use) { (session, _) throws(TPMError) in
            if ticket.isFinger { try checkCounter(use, session) }
            try execute(
                PolicyTicket(
                    ticket.ticket, for: Approval(policyRef: ticket.reference),
                    by: ticket.authority), in: session)
            return nil
        }.response
    }

    /// Uses an object with the broker's approval for a suspended session: Load, ContextLoad, the
    /// commands of ``finish(_:_:in:_:)``, FlushContext.
    ///
    /// Load comes first: if the TPM has no memory for the object, the session is still suspended
    /// and the call can be repeated.
    func use<C>(
        _ use: KeyUse<C>, _ approval: PresenceApproval, in suspended: SuspendedSession
    ) throws(TPMError) -> (response: C.Response, ticket: ProofTicket?) {
        try withStorageRoot(use.root) { (parent) throws(TPMError) in
            try withLoadedObject(of: use.blob.key, under: parent) { (object) throws(TPMError) in
                try withResumed(suspended) { (session) throws(TPMError) in
                    try finish(use, approval, in: session, object)
                }
            }
        }
    }

    /// Sends the commands after the fingerprint prompt: PolicySigned, PolicyOR for a policy with
    /// branches, PolicyAuthValue if the proof is reusable, the use.
    func finish<C>(
        _ use: KeyUse<C>, _ approval: PresenceApproval, in session: Session, _ object: TPMObject
    ) throws(TPMError) -> (response: C.Response, ticket: ProofTicket?) {
        let ticket = try satisfyFinger(approval, use, session)
        return (try finishWithPolicy(use, in: session, object), ticket)
    }

    /// Opens a session for the broker's approval.
    func approvalSession(for use: KeyUse<some KeyCommand>) throws(TPMError) -> Session {
        guard use.needsSalt else { return try execute(StartAuthSession(.policy, saltedTo: nil)) }
        return try withStorageRoot(use.root) { (parent) throws(TPMError) in
            try execute(StartAuthSession(.policy, saltedTo: parent))
        }
    }

    private func withPolicySession<C>(
        _ use: KeyUse<C>, _ satisfy: (Session, TPMObject) throws(TPMError) -> ProofTicket?
    ) throws(TPMError) -> (response: C.Response, ticket: ProofTicket?) {
        try withStorageRoot(use.root) { (parent) throws(TPMError) in
            try withSession(.policy, saltedTo: use.needsSalt ? parent : nil) {
                (session) throws(TPMError) in
                let ticket = try satisfy(session, parent)
                return try withLoadedObject(of: use.blob.key, under: parent) {
                    (object) throws(TPMError) in
                    (try finishWithPolicy(use, in: session, object), ticket)
                }
            }
        }
    }

    /// Uses an object in a session that satisfied one branch of its policy.
    private func finishWithPolicy<C>(
        _ use: KeyUse<C>, in session: Session, _ object: TPMObject
    ) throws(TPMError) -> C.Response {
        let branches = try use.blob.branches(under: use.policy)
        if branches.count > 1 { try execute(PolicyOR(branches), in: session) }
        let own = use.protection.ownAuthValue
        if own != nil { try execute(PolicyAuthValue(), in: session) }
        return try execute(use, with: object, in: session, authValue: own ?? .empty)
    }

    /// Sends the command of a use, the last one of its session.
    private func execute<C>(
        _ use: KeyUse<C>, with object: TPMObject, in session: Session, authValue: AuthValue
    ) throws(TPMError) -> C.Response {
        var command = use.command
        command.key = NamedHandle(object)
        return try execute(
            command,
            authorizedBy: .lastUse(
                of: session, authValue: authValue,
                protecting: C.isResponseSecret ? .encrypt : []))
    }

    func withLoadedObject<R>(
        of key: TSS2PrivateKey, under parent: TPMObject,
        authorizedBy authorization: Authorization = .emptyPassword,
        _ body: (TPMObject) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        try withLoaded(
            key.privatePart, key.publicArea, under: parent, authorizedBy: authorization, body)
    }
}

/// The commands that satisfy a branch of a policy.
extension TPM {
    /// Satisfies the branch for a finger with the broker's approval.
    private func satisfyFinger(
        _ given: PresenceApproval, _ use: KeyUse<some KeyCommand>, _ session: Session
    ) throws(TPMError) -> ProofTicket? {
        guard let finger = use.protection.finger else {
            throw TPMError(.unsupported, reason: "the key's policy has no branch for a fingerprint")
        }
        try checkCounter(use, session)
        let reference = finger.reference(under: use.policy)
        let approval = Approval(
            nonceTPM: session.nonceTPM, expiration: given.expiration,
            commandHash: use.commandHash, policyRef: reference)
        let ticket = try submitApproval(
            approval, TPMSignature(given.signature), by: finger, in: session)
        guard use.isReusable else { return nil }
        return ProofTicket(
            ticket: ticket, authority: try finger.authority.name, reference: reference,
            isFinger: true)
    }

    /// Sends PolicySigned with the broker's persistent key. If that key is gone, loads its public
    /// area for this use.
    private func submitApproval(
        _ approval: Approval, _ signature: TPMSignature, by finger: PresenceProtection.Finger,
        in session: Session
    ) throws(TPMError) -> ApprovalTicket {
        if let handle = finger.handle {
            do {
                let authority = try TPMObject(handle: handle, publicArea: finger.authority)
                return try execute(
                    PolicySigned(approval, signature: signature, by: authority), in: session)
            } catch {
                // The handle is unused or holds another key. The session is unchanged.
                switch error.responseCode {
                case .handle?, .signature?, .type?, .scheme?, .key?: break
                default: throw error
                }
            }
        }
        return try lending(try execute(LoadExternal(finger.authority, in: .owner))) {
            (authority) throws(TPMError) in
            try execute(PolicySigned(approval, signature: signature, by: authority), in: session)
        }
    }

    private func checkCounter(_ use: KeyUse<some KeyCommand>, _ session: Session) throws(TPMError) {
        guard let counter = use.protection.finger?.counter else { return }
        try execute(PolicyNV(equals: counter.bytes, in: counter.index), in: session)
    }

    /// Proves the user's PIN in a session that is salted to the pinned storage root key.
    private func proveUserPIN(
        _ authValue: AuthValue, _ use: KeyUse<some KeyCommand>, _ parent: TPMObject,
        _ session: Session
    ) throws(TPMError) -> ProofTicket? {
        guard let pin = use.protection.userPIN else {
            throw TPMError(
                .unsupported, reason: "the key's policy has no branch for the user's PIN")
        }
        let reference = PresenceReference.pin(under: use.policy)
        let ticket = try withSession(.hmac, saltedTo: parent) { (proof) throws(TPMError) in
            let approval = Approval(
                nonceTPM: session.nonceTPM, expiration: -Int32(use.policy.reuseSeconds),
                commandHash: use.commandHash, policyRef: reference)
            return try execute(
                PolicySecret(approval, of: pin.index), in: session,
                authorizedBy: .lastUse(of: proof, authValue: authValue))
        }
        guard use.isReusable else { return nil }
        return ProofTicket(
            ticket: ticket, authority: pin.index.name, reference: reference, isFinger: false)
    }
}

extension KeyUse {
    /// Whether the proof of this use can be reused for some seconds.
    fileprivate var isReusable: Bool { policy.reuseSeconds > 0 }

    /// Whether the policy session must be salted. Unsealed data and HMACs must be encrypted on the
    /// bus. A reusable proof names no command, so only the session's HMAC prevents an attacker on
    /// the bus from signing another digest with it. In all other cases the proof names the session
    /// and the command, and neither the digest nor the signature is secret.
    fileprivate var needsSalt: Bool { isReusable || Command.isResponseSecret }

    /// The cpHash of the use, to which the proof is bound. Empty for a reusable proof.
    fileprivate var commandHash: [UInt8] { isReusable ? [] : command.hash }
}

extension TPMSignature {
    init(_ signature: ECDSASignature) {
        let raw = Array(signature.rawRepresentation)
        self = .ecdsa(hash: .sha256, r: Array(raw.prefix(32)), s: Array(raw.suffix(32)))
    }
}
