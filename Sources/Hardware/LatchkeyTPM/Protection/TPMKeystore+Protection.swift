internal import FoundationEssentials
package import Latchkey
internal import TPM2

extension TPMKeystore {
    /// Obtains the protection for a new object with a policy.
    ///
    /// A policy with a fingerprint requires the presence broker. A PIN does not. If there is a
    /// broker, all keys of the user share one PIN with its own count: the user sets it once, and
    /// proves it to create another key.
    ///
    /// - Throws: `KeystoreError` with code `unsupported` when the object would have its own PIN, and
    ///   the policy a reuse time.
    func protection(
        for policy: AccessPolicy, under root: StorageRoot, _ prompt: PromptContext,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> PresenceProtection {
        var terms: PresenceTerms?
        if policy.requirement != .none, let broker = presence.broker?.approvals {
            terms = try await self.terms(of: broker, policy)
            if policy.hasPIN, let stated = terms {
                if let existing = stated.userPIN {
                    try await confirmUserPIN(existing, root, prompt, presence)
                } else {
                    terms?.userPIN = try await newUserPIN(broker, root, prompt, presence)
                }
            }
        } else if policy.hasFinger {
            throw KeystoreError(
                code: .unavailable, reason: "only the presence broker can verify a fingerprint",
                recovery: Recovery("Install and start latchkey-presenced.", .choosePolicy))
        }
        let protection: PresenceProtection
        do {
            protection = try PresenceProtection(terms, for: policy)
        } catch {
            throw KeystoreError(
                code: .refused, reason: "the presence broker's terms are not valid: \(error)",
                recovery: "Ask an administrator to check latchkey-presenced.",
                underlying: .init(error))
        }
        guard protection.fits(policy) else {
            throw .unsupported(
                "a TPM cannot reuse the proof of a key's own PIN",
                recovery: "Omit the reuse time, or use a policy with a fingerprint only.")
        }
        return protection
    }

    /// Requests the broker's terms for a policy.
    ///
    /// - Returns: nil if this machine has no broker, so that each object has its own PIN, which the
    ///   TPM's lockout counts. A broker that fails or does not answer is an error, because another
    ///   user could cause that.
    /// - Throws: `KeystoreError` with code `wrongDevice` if the broker uses another TPM, and the
    ///   policy needs its indices.
    package func terms(
        of broker: any ApprovalService, _ policy: AccessPolicy
    ) async throws(KeystoreError) -> PresenceTerms? {
        let terms: PresenceTerms
        do {
            terms = try await broker.terms(for: policy)
        } catch {
            guard !policy.hasFinger else {
                guard error.code == .unavailable else { throw error }
                throw error.with(recovery: error.recoveryAction.offering(.choosePolicy))
            }
            guard await broker.isAbsent() else { throw error }
            return nil
        }
        if policy.hasPIN || terms.counter != nil { try await checkTPM(of: terms) }
        return terms
    }

    /// Checks that the broker's key is in this TPM: its users' PINs and counters are in the TPM of
    /// its key. One command. The response is not authenticated: an attacker on the bus who forges it
    /// can only prevent the use of this TPM.
    private func checkTPM(of terms: PresenceTerms) async throws(KeystoreError) {
        guard let handle = terms.authorityHandle.map(TPMHandle.init(rawValue:)) else { return }
        let isHere = try await withTPM { (tpm) throws(TPMError) in
            do throws(TPMError) {
                return try Data(tpm.execute(ReadPublic(handle)).publicArea.marshalled)
                    == terms.authority
            } catch {
                guard case .response(.handle) = error.kind else { throw error }
                return false
            }
        }
        guard isHere else {
            throw KeystoreError(
                code: .wrongDevice,
                reason:
                    "the presence broker of this machine uses another TPM than the selected one, "
                    + "and would count wrong PINs there",
                recovery: Recovery("Select the TPM of the broker.", .chooseTPM))
        }
    }

    /// Verifies that the user knows the existing PIN. Call it before a key is bound to the PIN:
    /// another program that had set the PIN could otherwise use the key.
    func confirmUserPIN(
        _ existing: PresenceTerms.UserPIN, _ root: StorageRoot, _ prompt: PromptContext,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) {
        let pin = try KeystoreError.explaining { () throws(TPMError) in
            try PresenceProtection.UserPIN(existing)
        }
        let typed = try await currentUserPIN(pin, prompt, presence)
        let explain: Explanation = { error in
            error.command == .nvRead ? await explainUserPIN(error, pin) : KeystoreError(error)
        }
        try await presence.reporting(typed) { () async throws(KeystoreError) in
            try await withTPM(explainedBy: explain) { (tpm) throws(TPMError) in
                let value = try pin.authValue(typed)
                try tpm.withSaltedSession(under: root) { (session, _) throws(TPMError) in
                    // The index counts a wrong PIN.
                    _ = try tpm.nvRead(
                        pin.index, authorizedBy: .lastUse(of: session, authValue: value))
                }
            }
        }
    }

    /// Prompts for a new PIN and sets it as the authValue of the index that the broker created.
    ///
    /// - Returns: nil if the TPM has no memory for an index.
    private func newUserPIN(
        _ broker: any ApprovalService, _ root: StorageRoot, _ prompt: PromptContext,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> PresenceTerms.UserPIN? {
        let unset: UnsetUserPIN
        do {
            unset = try await broker.makeUserPIN()
        } catch {
            guard error.code == .unsupported else { throw error }
            return nil
        }
        let pin = try await newPIN(isCounted: false, prompt, presence)
        try await withTPM { (tpm) throws(TPMError) in
            let index = try PresenceProtection.UserPIN(unset.pin)
            let initial = unset.initialValue.withUnsafeBytes { AuthValue($0) } ?? .empty
            try tpm.changeIndexPIN(
                of: index.index, index.branches, from: initial, to: index.authValue(pin),
                under: root)
        }
        presence.accepted()
        return unset.pin
    }
}

extension PresenceProtection.UserPIN {
    /// The authValue for a PIN. The salt comes from the policy of the index, which is different for
    /// each user and index. Like the salt of a key's own PIN, it does not prevent guessing.
    ///
    /// - Parameter binding: That of the only key that the PIN opens; nil for the user's PIN, which
    ///   many keys share.
    func authValue(_ pin: PIN, boundTo binding: KeyBinding? = nil) throws(TPMError) -> AuthValue {
        try PINHardening.authValue(
            pin, salt: Array(index.publicArea.authPolicy.prefix(PINHardening.saltBytes)),
            boundTo: binding)
    }
}

extension TPM {
    /// Changes the PIN of an index in the TPM. The old PIN no longer works, also for copies of the
    /// stored keys and secrets.
    ///
    /// - Parameter branches: The branches of the index's policy. The second one permits the change
    ///   with the current PIN.
    func changeIndexPIN(
        of index: NVIndex, _ branches: [PolicyDigest], from old: AuthValue, to new: AuthValue,
        under root: StorageRoot
    ) throws(TPMError) {
        try withSaltedSession(.policy, under: root) { (session, _) throws(TPMError) in
            for assertion in PresenceProtection.UserPIN.changing {
                try satisfy(assertion, in: session)
            }
            try execute(PolicyOR(branches), in: session)
            try execute(
                NVChangeAuth(of: index, to: new),
                authorizedBy: .lastUse(of: session, authValue: old, protecting: .decrypt))
        }
    }

    /// Executes an assertion that needs no authorization.
    func satisfy(_ assertion: some PolicyAssertion, in session: Session) throws(TPMError) {
        try execute(assertion, in: session)
    }
}
