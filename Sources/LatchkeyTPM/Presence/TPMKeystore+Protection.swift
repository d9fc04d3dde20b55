internal import Latchkey
internal import TPM2

extension TPMKeystore {
    /// What a new object of a policy is bound to, here and now.
    ///
    /// A policy with a finger needs the presence broker. A PIN does not; where there is a broker, the PIN is the user's
    /// own, with its own count, and it is set once; whoever makes another key shows that they know it.
    func protection(
        for policy: AccessPolicy, under root: StorageRoot, _ prompt: PromptContext, _ operation: String,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> PresenceProtection? {
        guard policy.requirement != .none else { return nil }
        guard let broker = presence.broker?.approvals else {
            guard policy.hasFinger else { return nil }
            throw KeystoreError(
                operation: operation, code: .unavailable, reason: "a finger is checked by the presence broker only",
                recovery: "Install and start latchkey-presenced, or use the policy ‘pin’.")
        }
        guard var terms = try await terms(of: broker, policy) else { return nil }
        if policy.hasPIN {
            if let standing = terms.userPIN {
                try await confirm(standing, root, prompt, operation, presence)
            } else {
                terms.userPIN = try await newUserPIN(broker, root, prompt, operation, presence)
            }
        }
        guard policy.hasFinger || terms.userPIN != nil else { return nil }
        do {
            return try PresenceProtection(terms, for: policy)
        } catch {
            throw KeystoreError(
                operation: operation, code: .refused, reason: "the presence broker's terms can't be trusted: \(error)",
                recovery: "Have an administrator look at latchkey-presenced.", underlying: .init(error))
        }
    }

    /// - Returns: nil where the PIN belongs to the object and the TPM's own lockout counts it, since this machine has no
    ///   broker. A broker that fails or does not answer is an error: another user could cause that.
    func terms(
        of broker: any ApprovalService, _ policy: AccessPolicy
    ) async throws(KeystoreError) -> PresenceTerms? {
        do {
            return try await broker.terms(for: policy)
        } catch {
            guard !policy.hasFinger, await broker.isAbsent() else { throw error }
            return nil
        }
    }

    /// Has the user show that the PIN that is set is theirs: another program could have set one before they did, and a key
    /// bound to that would be open to it.
    private func confirm(
        _ standing: PresenceTerms.UserPIN, _ root: StorageRoot, _ prompt: PromptContext, _ operation: String,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) {
        let pin: PresenceProtection.UserPIN
        do {
            pin = try PresenceProtection.UserPIN(standing)
        } catch {
            throw KeystoreError(error, during: operation)
        }
        let status = try await status(of: pin, operation)
        guard !status.isLockedOut else { throw .userPINLocked(operation) }
        let typed = try await currentPIN(status, prompt, operation, presence)
        do {
            let value = try pin.authValue(typed)
            try await device.visit { (tpm) throws(TPMError) in try tpm.confirmUserPIN(pin, value, under: root) }
        } catch {
            guard error.command == .nvRead else { throw KeystoreError(error, during: operation) }
            throw await explained(error, pin, operation)
        }
    }

    /// Has the user choose a PIN, and puts it into the index that the broker made for it.
    ///
    /// - Returns: nil where the TPM has no room for an index.
    private func newUserPIN(
        _ broker: any ApprovalService, _ root: StorageRoot, _ prompt: PromptContext, _ operation: String,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> PresenceTerms.UserPIN? {
        let unset: UnsetUserPIN
        do {
            unset = try await broker.makeUserPIN()
        } catch {
            guard error.code == .unsupported else { throw error }
            return nil
        }
        let pin = try await newPIN(isCounted: false, prompt, operation, presence)
        do {
            let index = try PresenceProtection.UserPIN(unset.pin)
            let initial = unset.initialValue.withUnsafeBytes { AuthValue($0) } ?? .empty
            let value = try index.authValue(pin)
            try await device.visit { (tpm) throws(TPMError) in
                try tpm.changePIN(of: index.index, index.branches, from: initial, to: value, under: root)
            }
        } catch {
            throw KeystoreError(error, during: operation)
        }
        return unset.pin
    }
}

extension PresenceProtection.UserPIN {
    /// What the PIN is to the TPM. The salt is of the index's making, so that it differs between users and makings; like
    /// that of a key's own PIN it is no defence against guessing.
    func authValue(_ pin: PIN) throws(TPMError) -> AuthValue {
        try PINHardening.authValue(pin, salt: Array(index.publicArea.authPolicy.prefix(PINHardening.saltBytes)))
    }
}

extension TPM {
    /// Reads the index by its own authorization; a wrong PIN is counted.
    fileprivate func confirmUserPIN(
        _ pin: PresenceProtection.UserPIN, _ value: AuthValue, under root: StorageRoot
    ) throws(TPMError) {
        try withStorageRoot(root) { (parent) throws(TPMError) in
            try withSession(.hmac, saltedTo: parent) { (session) throws(TPMError) in
                _ = try nvRead(pin.index, authorizedBy: .lastUse(of: session, authValue: value))
            }
        }
    }

    /// Changes the PIN of an index in its place: the old one is dead for every copy of what it opens.
    ///
    /// - Parameter branches: Those of the index's policy; the second lets who knows the PIN change it.
    func changePIN(
        of index: NVIndex, _ branches: [PolicyDigest], from old: AuthValue, to new: AuthValue, under root: StorageRoot
    ) throws(TPMError) {
        try withStorageRoot(root) { (parent) throws(TPMError) in
            try withSession(.policy, saltedTo: parent) { (session) throws(TPMError) in
                try policyAuthValue(session)
                try policyCommandCode(.nvChangeAuth, in: session)
                try policyOR(branches, in: session)
                try nvChangeAuth(
                    of: index, to: new,
                    authorizedBy: .lastUse(of: session, authValue: old, protecting: .decrypt))
            }
        }
    }
}
