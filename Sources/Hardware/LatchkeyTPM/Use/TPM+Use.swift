internal import Latchkey
internal import TPM2

/// One use of an object, with each kind of proof.
extension TPM {
    /// The result of a use, and a ticket that authorizes the next use without a prompt.
    typealias UseResult<R> = (result: R, ticket: ProofTicket?)

    /// Uses an object with its authValue: StartAuthSession, Load, the use, FlushContext. For a
    /// revocable key `authValue` is that of its index, and NV_Read comes before the use.
    ///
    /// The session also authorizes Load, although the parent has no authValue: a TPM without the
    /// pinned key does not know the salt and fails there, before a value derived from a PIN is
    /// sent.
    func useWithAuthValue<Response, R>(
        _ use: KeyUse, _ authValue: AuthValue, _ body: UseBody<Response, R>
    ) throws(TPMError) -> UseResult<R> {
        try withSaltedSession(under: use.root) { (session, parent) throws(TPMError) in
            try withLoadedObject(for: use, body, under: parent, authorizedBy: .continuing(session))
            {
                (object) throws(TPMError) in
                (try finishWithAuthValue(use, authValue, in: session, object, body), nil)
            }
        }
    }

    /// Sends the commands after the PIN prompt: NV_Read for a revocable key, the use.
    func finishWithAuthValue<Response, R>(
        _ use: KeyUse, _ authValue: AuthValue, in session: Session, _ object: TPMObject,
        _ body: UseBody<Response, R>
    ) throws(TPMError) -> Response {
        var own = authValue
        if let kept = use.authorization {
            own = try self.authValue(
                in: kept, boundTo: use.blob.binding,
                authorizedBy: .continuing(session, authValue: authValue, protecting: .encrypt))
        }
        return try body.command(self, object) { [own] in
            .lastUse(of: session, authValue: own, protecting: $0)
        }
    }

    /// Uses an object with the user's PIN: StartAuthSession twice, PolicySecret, then the commands
    /// as for a ticket.
    func useWithUserPIN<Response, R>(
        _ use: KeyUse, _ authValue: AuthValue, _ body: UseBody<Response, R>
    ) throws(TPMError) -> UseResult<R> {
        try withPolicySession(use, body) { (session, parent) throws(TPMError) in
            try proveUserPIN(authValue, use, parent, session)
        }
    }

    /// Uses an object with an earlier proof: StartAuthSession, PolicyTicket, Load, PolicyOR for a
    /// policy with branches, PolicyAuthValue, the use, FlushContext.
    func useWithTicket<Response, R>(
        _ use: KeyUse, _ ticket: ProofTicket, _ body: UseBody<Response, R>
    ) throws(TPMError) -> UseResult<R> {
        try withPolicySession(use, body) { (session, _) throws(TPMError) in
            if ticket.isFinger { try checkCounter(use, session) }
            try policyTicket(
                ticket.ticket, for: Approval(policyRef: ticket.reference), by: ticket.authority,
                in: session)
            return nil
        }
    }

    /// Uses an object with the broker's approval for a suspended session: Load, ContextLoad, the
    /// commands of ``finishWithApproval(_:_:in:_:_:)``, FlushContext.
    ///
    /// Load comes first: if the TPM has no memory for the object, the session is still suspended
    /// and the call can be repeated.
    func useWithApproval<Response, R>(
        _ use: KeyUse, _ approval: PresenceApproval, in suspended: SuspendedSession,
        _ body: UseBody<Response, R>
    ) throws(TPMError) -> UseResult<R> {
        try withStorageRoot(use.root) { (parent) throws(TPMError) in
            try withLoadedObject(for: use, body, under: parent) { (object) throws(TPMError) in
                try withResumed(suspended) { (session) throws(TPMError) in
                    try finishWithApproval(use, approval, in: session, object, body)
                }
            }
        }
    }

    /// Sends the commands after the fingerprint prompt: PolicySigned, PolicyOR for a policy with
    /// branches, PolicyAuthValue if the proof is reusable, the use.
    func finishWithApproval<Response, R>(
        _ use: KeyUse, _ approval: PresenceApproval, in session: Session, _ object: TPMObject,
        _ body: UseBody<Response, R>
    ) throws(TPMError) -> UseResult<Response> {
        let ticket = try satisfyFinger(approval, use, session)
        return (try finishWithPolicy(use, in: session, object, body), ticket)
    }

    /// Opens a session for the broker's approval.
    func approvalSession(for use: KeyUse) throws(TPMError) -> Session {
        guard use.needsSalt else { return try startAuthSession(.policy, saltedTo: nil) }
        return try withStorageRoot(use.root) { (parent) throws(TPMError) in
            try startAuthSession(.policy, saltedTo: parent)
        }
    }

    private func withPolicySession<Response, R>(
        _ use: KeyUse, _ body: UseBody<Response, R>,
        _ satisfy: (Session, TPMObject) throws(TPMError) -> ProofTicket?
    ) throws(TPMError) -> UseResult<R> {
        try withStorageRoot(use.root) { (parent) throws(TPMError) in
            try withSession(.policy, saltedTo: use.needsSalt ? parent : nil) {
                (session) throws(TPMError) in
                let ticket = try satisfy(session, parent)
                return try withLoadedObject(for: use, body, under: parent) {
                    (object) throws(TPMError) in
                    (try finishWithPolicy(use, in: session, object, body), ticket)
                }
            }
        }
    }

    /// Uses an object in a session that satisfied one branch of its policy.
    private func finishWithPolicy<Response, R>(
        _ use: KeyUse, in session: Session, _ object: TPMObject, _ body: UseBody<Response, R>
    ) throws(TPMError) -> Response {
        let branches = try use.protection?.branches(under: use.policy) ?? []
        if branches.count > 1 { try policyOR(branches, in: session) }
        guard let own = use.protection?.ownAuthValue else {
            return try body.command(self, object) { .lastUse(of: session, protecting: $0) }
        }
        try policyAuthValue(session)
        return try body.command(self, object) {
            .lastUse(of: session, authValue: own, protecting: $0)
        }
    }

    func withLoadedObject<R>(
        of key: TSS2PrivateKey, under parent: TPMObject,
        authorizedBy authorization: Authorization = .emptyPassword,
        _ body: (TPMObject) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        try withLoaded(
            key.privatePart, key.publicArea, under: parent, authorizedBy: authorization, body)
    }

    /// Lends a loaded object to `command`, and computes the result while the TPM flushes the
    /// object.
    private func withLoadedObject<Response, R>(
        for use: KeyUse, _ body: UseBody<Response, R>, under parent: TPMObject,
        authorizedBy authorization: Authorization = .emptyPassword,
        _ command: (TPMObject) throws(TPMError) -> UseResult<Response>
    ) throws(TPMError) -> UseResult<R> {
        let key = use.blob.key
        let object = try load(
            key.privatePart, key.publicArea, under: parent, authorizedBy: authorization)
        return try lending(object, whileFlushing: body.finish, command)
    }
}

/// The commands that satisfy a branch of a policy.
extension TPM {
    /// Satisfies the branch for a finger with the broker's approval.
    private func satisfyFinger(
        _ given: PresenceApproval, _ use: KeyUse, _ session: Session
    ) throws(TPMError) -> ProofTicket? {
        guard let finger = use.protection?.finger else {
            throw TPMError(.unsupported, reason: "the key's policy has no branch for a fingerprint")
        }
        try checkCounter(use, session)
        let reference = finger.reference(under: use.policy)
        let approval = Approval(
            nonceTPM: session.nonceTPM, expiration: given.expiration,
            commandHash: try use.commandHash, policyRef: reference)
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
                return try policySigned(approval, signature: signature, by: authority, in: session)
            } catch {
                // The handle is unused or holds another key. The session is unchanged.
                switch error.responseCode {
                case .handle?, .signature?, .type?, .scheme?, .key?: break
                default: throw error
                }
            }
        }
        return try lending(try loadExternal(finger.authority, in: .owner)) {
            (authority) throws(TPMError) in
            try policySigned(approval, signature: signature, by: authority, in: session)
        }
    }

    private func checkCounter(_ use: KeyUse, _ session: Session) throws(TPMError) {
        guard let counter = use.protection?.finger?.counter else { return }
        try policyNVEquals(counter.bytes, in: counter.index, session: session)
    }

    /// Proves the user's PIN in a session that is salted to the pinned storage root key.
    private func proveUserPIN(
        _ authValue: AuthValue, _ use: KeyUse, _ parent: TPMObject, _ session: Session
    ) throws(TPMError) -> ProofTicket? {
        guard let pin = use.protection?.userPIN else {
            throw TPMError(
                .unsupported, reason: "the key's policy has no branch for the user's PIN")
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
    fileprivate var needsSalt: Bool {
        switch use {
        case .sign, .signNamingScheme: isReusable
        case .unseal, .mac: true
        }
    }

    /// The cpHash of the use, to which the proof is bound. Empty for a reusable proof.
    fileprivate var commandHash: [UInt8] {
        get throws(TPMError) {
            guard !isReusable else { return [] }
            let name = try blob.key.publicArea.name
            return switch use {
            case .sign(let digest): TPM.signCommandHash(digest.bytes, with: name)
            case .signNamingScheme(let digest):
                TPM.signCommandHash(digest.bytes, with: name, scheme: .ecdsaSHA256)
            case .unseal: TPM.unsealCommandHash(name)
            case .mac(let message): TPM.hmacCommandHash(Array(message), with: name)
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
