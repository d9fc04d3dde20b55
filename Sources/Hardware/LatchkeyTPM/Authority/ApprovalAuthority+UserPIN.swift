internal import FoundationEssentials
package import Latchkey
internal import TPM2

extension ApprovalAuthority {
    /// Creates an index for a user's PIN, with a random value instead of the PIN. Returns the same
    /// index again until the PIN is set.
    ///
    /// - Throws: `KeystoreError` with code `conflict` when the user's PIN is set, because a new
    ///   index would replace it without proof. `unsupported` when the TPM has no memory or does not
    ///   support such indices.
    package func makePIN(for user: UInt32) async throws(KeystoreError) -> UnsetUserPIN {
        do throws(KeystoreError) {
            return try await work { (tpm, store) in
                guard try tpm.settledPIN(of: user, store) == nil else {
                    throw KeystoreError.conflict(
                        "the PIN is already set", recovery: "Change it instead.")
                }
                let name = try tpm.authorityName(store)
                if let existing = store.user(user).pin, let initial = existing.initialValue {
                    return UnsetUserPIN(
                        pin: existing.terms(name), initialValue: SecretBytes(initial))
                }
                guard let handle = try tpm.nextAuthorityIndex(store) else {
                    throw Self.noMemory
                }
                let (pin, area) = AuthorityState.UserPIN.make(of: user, at: handle, by: name)
                try store.update(user) { $0.pin = pin }
                do throws(TPMError) {
                    try tpm.define(pin, area, store)
                } catch {
                    guard error.command == .nvDefineSpace, error.responseCode != nil else {
                        try? store.update(user) { $0.pin = nil }
                        throw error
                    }
                    try store.update(user) { $0.pin = nil }
                    throw Self.noMemory
                }
                return UnsetUserPIN(
                    pin: pin.terms(name), initialValue: SecretBytes(pin.initialValue ?? Data()))
            }
        } catch { throw error.during("create an index for a PIN") }
    }

    /// Resets the count of a user's wrong PINs, after a fingerprint or for the administrator.
    ///
    /// - Throws: `KeystoreError` with code `notFound` when the user has no PIN.
    package func resetPIN(of user: UInt32) async throws(KeystoreError) {
        do throws(KeystoreError) {
            try await work { (tpm, store) in
                guard let pin = try tpm.settledPIN(of: user, store) else {
                    throw KeystoreError.notFound(
                        "the user \(user) has no PIN", recovery: "Set one first.")
                }
                try tpm.reset(pin, store)
            }
        } catch { throw error.during("reset a PIN's count") }
    }

    private static var noMemory: KeystoreError {
        .unsupported(
            "the TPM has no memory for the user's PIN",
            recovery: "Create keys that each have their own PIN.")
    }
}

extension AuthorityState.UserPIN {
    /// - Returns: The stored record, and the public area of the index before its first write.
    fileprivate static func make(
        of user: UInt32, at handle: TPMHandle, by authority: TPMName
    ) -> (AuthorityState.UserPIN, NVPublicArea) {
        let making = SecretBytes.random(count: 16).withUnsafeBytes { Array($0) }
        let reference = PresenceReference.reset(of: user, making: making)
        let policy = PolicyDigest().signed(by: authority, policyRef: reference)
        let branches = [policy, PresenceProtection.UserPIN.changePolicy]
        let area = NVPublicArea(
            index: handle, attributes: PresenceProtection.UserPIN.attributes,
            authPolicy: PolicyDigest.or(branches)?.bytes ?? [], dataSize: 8)
        let initial = SecretBytes.random(count: 32).withUnsafeBytes { Data($0) }
        return (
            AuthorityState.UserPIN(
                publicArea: Data(area.written.marshalled), resetReference: Data(reference),
                initialValue: initial),
            area
        )
    }

    func terms(_ authority: TPMName) -> PresenceTerms.UserPIN {
        let policy = PolicyDigest().signed(by: authority, policyRef: Array(resetReference))
        return PresenceTerms.UserPIN(publicArea: publicArea, resetPolicy: Data(policy.bytes))
    }
}

extension TPM {
    /// Returns the user's PIN, if it is set. Forgets an index that was removed, and removes an
    /// index that was not written.
    func settledPIN(of user: UInt32, _ store: AuthorityStore) throws(TPMError) -> AuthorityState
        .UserPIN?
    {
        guard var pin = store.user(user).pin else { return nil }
        guard try isIntact(pin.publicArea, store) else {
            try removeUnwritten(pin.publicArea)
            try store.record(user) { $0.pin = nil }
            return nil
        }
        guard let initial = pin.initialValue else { return pin }
        // The wrong PINs of other programs. Not known if the TPM's owner has a password.
        let earlier = try? count(of: pin, store)
        guard try !holds(initial, pin, store) else { return nil }
        pin.initialValue = nil
        try store.record(user) { [pin] in $0.pin = pin }
        // The check used an attempt, which stays used if the count before it is not known.
        if let earlier { try reset(pin, to: earlier.failures, store) }
        return pin
    }

    /// Resets the count. The TPM rejects the write if the index was replaced.
    func reset(
        _ pin: AuthorityState.UserPIN, to failures: UInt32 = 0, _ store: AuthorityStore
    ) throws(TPMError) {
        try write(pin, failures, to: try NVIndex(unmarshalling: pin.publicArea), store)
    }

    fileprivate func define(
        _ pin: AuthorityState.UserPIN, _ area: NVPublicArea, _ store: AuthorityStore
    ) throws(TPMError) {
        guard let initial = pin.initialValue.flatMap({ $0.withUnsafeBytes { AuthValue($0) } })
        else { return }
        let unwritten = try withAuthority(store) { (authority) throws(TPMError) in
            try withSession(.hmac, saltedTo: authority.parent) { (session) throws(TPMError) in
                try execute(
                    NVDefineSpace(area, authValue: initial),
                    authorizedBy: .lastUse(of: session, protecting: .decrypt))
            }
        }
        do {
            try write(pin, 0, to: unwritten, store)
        } catch {
            try? execute(NVUndefineSpace(unwritten))
            throw error
        }
    }

    private func write(
        _ pin: AuthorityState.UserPIN, _ failures: UInt32, to index: NVIndex,
        _ store: AuthorityStore
    ) throws(TPMError) {
        let count = UserPINCount(failures: failures, limit: ApprovalAuthority.pinLimit)
        try withAuthority(store) { (authority) throws(TPMError) in
            let reference = Array(pin.resetReference)
            let policy = PolicyDigest().signed(by: authority.key.name, policyRef: reference)
            try authority.withApproval(
                of: reference, among: [policy, PresenceProtection.UserPIN.changePolicy]
            ) {
                (authorization) throws(TPMError) in
                try execute(
                    NVWrite(SensitiveData(count.marshalled), to: index), authorizedBy: authorization
                )
            }
        }
    }

    /// Whether the index still has this random value instead of a PIN. A mismatch uses one attempt.
    func holds(
        _ initial: Data, _ pin: AuthorityState.UserPIN, _ store: AuthorityStore
    ) throws(TPMError) -> Bool {
        guard let value = initial.withUnsafeBytes({ AuthValue($0) }) else { return false }
        let index = try NVIndex(unmarshalling: pin.publicArea)
        do {
            _ = try withAuthority(store) { (authority) throws(TPMError) in
                try withSession(.hmac, saltedTo: authority.parent) { (session) throws(TPMError) in
                    try nvRead(index, authorizedBy: .lastUse(of: session, authValue: value))
                }
            }
            return true
        } catch {
            switch error.responseCode {
            case .badAuth?, .authFail?, .authUnavailable?: return false
            default: throw error
            }
        }
    }
}
