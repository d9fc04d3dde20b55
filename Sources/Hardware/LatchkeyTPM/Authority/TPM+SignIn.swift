internal import FoundationEssentials
internal import Latchkey
internal import TPM2

extension TPM {
    /// Checks a PIN: StartAuthSession, NV_Read. The TPM counts a wrong one. The response's HMAC
    /// contains the PIN, so another program cannot forge a yes.
    func check(
        _ pin: PIN, of record: AuthorityState.UserPIN, _ store: AuthorityStore
    ) throws {
        let index = try userPIN(record, store)
        let value = try index.authValue(pin)
        try explaining(record, store) { () throws(TPMError) in
            try withSaltedSession(under: StorageRoot(anchor: store.existing.root)) {
                (session, _) throws(TPMError) in
                _ = try nvRead(
                    index.index, authorizedBy: .lastUse(of: session, authValue: value))
            }
        }
    }

    /// Opens a secret with the PIN: StartAuthSession twice, PolicySecret, PolicyOR, Load, Unseal,
    /// FlushContext.
    ///
    /// - Returns: nil if the PIN is right and a later command fails.
    func open(
        _ blob: SignInBlob, with pin: PIN, of record: AuthorityState.UserPIN, _ user: UInt32,
        _ store: AuthorityStore
    ) throws -> SecretBytes? {
        let index = try userPIN(record, store)
        let value = try index.authValue(pin)
        let use = try blob.useHash
        let branches = try SignInBlob.branches(for: user, record, store)
        var isProven = false
        do {
            return try explaining(record, store) { () throws(TPMError) in
                try withSaltedSession(.policy, under: StorageRoot(anchor: store.existing.root)) {
                    (session, parent) throws(TPMError) in
                    try withSession(.hmac, saltedTo: parent) { (proof) throws(TPMError) in
                        _ = try execute(
                            PolicySecret(
                                Approval(
                                    nonceTPM: session.nonceTPM, commandHash: use,
                                    policyRef: PresenceReference.signInPIN), of: index.index),
                            in: session, authorizedBy: .lastUse(of: proof, authValue: value))
                    }
                    isProven = true
                    return try unseal(blob, branches, in: session, parent)
                }
            }
        } catch let error as TPMError {
            guard isProven else { throw error }
            return nil
        }
    }

    /// Opens a secret with the broker's approval for the user: StartAuthSession twice, Sign,
    /// PolicySigned, PolicyOR if a PIN opens it too, Load, Unseal, FlushContext. The first use of a
    /// process also finds the persistent key.
    func open(
        _ blob: SignInBlob, byFingerOf user: UInt32, _ record: AuthorityState.UserPIN?,
        _ store: AuthorityStore
    ) throws -> SecretBytes {
        let use = try blob.useHash
        let branches = try SignInBlob.branches(for: user, blob.hasPIN ? record : nil, store)
        return try withKnownAuthority(store) { (authority) throws(TPMError) in
            try withSession(.policy, saltedTo: authority.parent) { (session) throws(TPMError) in
                let approval = Approval(
                    nonceTPM: session.nonceTPM, expiration: ApprovalAuthority.approvalSeconds,
                    commandHash: use, policyRef: PresenceReference.signIn(of: user))
                _ = try execute(
                    PolicySigned(
                        approval, signature: try authority.sign(approval), by: authority.key),
                    in: session)
                return try unseal(blob, branches, in: session, authority.parent)
            }
        }
    }

    /// Seals a secret: StartAuthSession, Create.
    func seal(
        _ secret: SecretBytes, for user: UInt32, _ record: AuthorityState.UserPIN?,
        _ store: AuthorityStore
    ) throws(TPMError) -> SignInBlob {
        let policy = SignInBlob.policy(try SignInBlob.branches(for: user, record, store))
        let template = KeyTemplates.signInSecret(policy)
        let created = try withSaltedSession(under: StorageRoot(anchor: store.existing.root)) {
            (session, parent) throws(TPMError) in
            try execute(
                Create(
                    template, sealing: secret.withUnsafeBytes { SensitiveData($0) }, under: parent),
                authorizedBy: .lastUse(of: session, protecting: .decrypt))
        }
        return SignInBlob(
            hasPIN: record != nil, publicArea: Data(created.publicArea.marshalled),
            privatePart: Data(created.privatePart.bytes))
    }

    private func unseal(
        _ blob: SignInBlob, _ branches: [PolicyDigest], in session: Session, _ parent: TPMObject
    ) throws(TPMError) -> SecretBytes {
        if branches.count > 1 { try execute(PolicyOR(branches), in: session) }
        return try lending(execute(try blob.load(under: parent))) { (object) throws(TPMError) in
            let data = try execute(
                Unseal(object), authorizedBy: .lastUse(of: session, protecting: .encrypt))
            return data.withUnsafeBytes { SecretBytes($0) }
        }
    }

    private func userPIN(
        _ record: AuthorityState.UserPIN, _ store: AuthorityStore
    ) throws(TPMError) -> PresenceProtection.UserPIN {
        try PresenceProtection.UserPIN(record.terms(try authorityName(store)))
    }

    /// Explains a rejected PIN by the count, which is read only then.
    private func explaining<R>(
        _ record: AuthorityState.UserPIN, _ store: AuthorityStore, _ body: () throws(TPMError) -> R
    ) throws -> R {
        do throws(TPMError) { return try body() } catch {
            switch (error.command, error.responseCode) {
            case (.policySecret, .badAuth?), (.policySecret, .authFail?),
                (.policySecret, .authUnavailable?), (.nvRead, .badAuth?), (.nvRead, .authFail?),
                (.nvRead, .authUnavailable?):
                let status = try count(of: record, store).status
                guard status.isLockedOut else {
                    throw KeystoreError.wrongPIN(status, underlying: error)
                }
                throw KeystoreError.userPINLocked(underlying: error)
            default: throw error
            }
        }
    }

    /// Lends the approval key at the handle at which it was found before. Another program can
    /// remove it: the TPM then rejects the use, and the key is searched for.
    private func withKnownAuthority<R>(
        _ store: AuthorityStore, _ body: (LoadedAuthority) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        if let handle = store.knownHandle {
            do throws(TPMError) { return try withAuthority(store, at: handle, body) } catch {
                guard error.responseCode != nil else { throw error }
                store.knownHandle = nil
            }
        }
        store.knownHandle = try authorityHandle(store)
        return try withAuthority(store, at: store.knownHandle, body)
    }
}
