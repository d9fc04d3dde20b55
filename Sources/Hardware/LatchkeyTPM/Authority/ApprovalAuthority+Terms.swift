package import FoundationEssentials
package import Latchkey
internal import TPM2

extension ApprovalAuthority {
    /// The approval key, index and counter to which a user's keys with a policy must be bound.
    ///
    /// - Parameter enrolmentSet: See ``approve(_:for:enrolmentSet:elapsed:)``.
    /// - Throws: `KeystoreError` with code `unsupported` when the policy requires a set of enrolled
    ///   fingers and none is given.
    package func terms(
        for user: UInt32, _ policy: AccessPolicy, enrolmentSet: Data?
    ) async throws(KeystoreError) -> PresenceTerms {
        do throws(KeystoreError) {
            let isBoundToSet = policy.isBoundToFingers
            guard !isBoundToSet || enrolmentSet?.count == 32 else {
                throw .unsupported(
                    "the presence broker cannot detect changes of the enrolled fingers",
                    recovery:
                        "Ask an administrator to let it read fprintd's prints, or use the policy ‘biometry-any’."
                )
            }
            if isBoundToSet, let enrolmentSet { try await note(enrolmentSet, of: user) }
            return try await work { (tpm, store) in
                var terms = PresenceTerms(
                    user: user, authority: store.current?.publicArea ?? Data(),
                    authorityHandle: try tpm.authorityHandle(store)?.rawValue)
                if isBoundToSet {
                    terms.enrolmentSet = enrolmentSet
                    terms.counter = try store.user(user).enrolment?.counter.map { area in
                        let index = try NVIndex(unmarshalling: area)
                        return PresenceTerms.Counter(
                            publicArea: area, value: try tpm.value(of: index))
                    }
                }
                if policy.hasPIN {
                    terms.userPIN = try tpm.settledPIN(of: user, store)?.terms(
                        try tpm.authorityName(store))
                }
                return terms
            }
        } catch { throw error.during("state the broker's terms") }
    }

    /// Records a user's enrolled fingers. A change invalidates the keys that were bound to the old
    /// set. Restoring an old state of the broker does not restore them.
    package func note(_ enrolmentSet: Data, of user: UInt32) async throws(KeystoreError) {
        do throws(KeystoreError) {
            try await work { (tpm, store) in
                var enrolment = store.user(user).enrolment ?? .init(set: Data(), counter: nil)
                let isIntact = try enrolment.counter.map { try tpm.isIntact($0, store) } ?? false
                guard enrolment.set != enrolmentSet || (enrolment.counter != nil && !isIntact)
                else { return }
                if isIntact, let area = enrolment.counter {
                    try tpm.increment(try NVIndex(unmarshalling: area), of: user, store)
                } else {
                    if let area = enrolment.counter { try tpm.removeUnwritten(area) }
                    enrolment.counter = try tpm.makeCounter(of: user, store).map {
                        Data($0.publicArea.marshalled)
                    }
                }
                enrolment.set = enrolmentSet
                try store.update(user) { [enrolment] in $0.enrolment = enrolment }
            }
        } catch { throw error.during("record the enrolled fingers") }
    }

    /// Whether keys of a user are bound to the enrolled fingers, so that changes must be detected.
    package func isBoundToFingers(_ user: UInt32) -> Bool { store.user(user).enrolment != nil }

    /// The users with keys that are bound to the enrolled fingers.
    package var usersBoundToFingers: [UInt32] {
        (store.current?.users ?? [:]).filter { $0.value.enrolment != nil }.map(\.key)
    }
}

extension TPM {
    func authorityName(_ store: AuthorityStore) throws(TPMError) -> TPMName {
        try PublicArea(unmarshalling: store.existing.publicArea).name
    }

    /// Whether an index exists unchanged. One command if it does. Otherwise checks in an audited
    /// session, because the broker forgets a missing index.
    func isIntact(_ publicArea: Data, _ store: AuthorityStore) throws(TPMError) -> Bool {
        let expected = try NVIndex(unmarshalling: publicArea)
        do {
            if try execute(NVReadPublic(expected.handle)) == expected { return true }
        } catch {
            guard case .response(.handle) = error.kind else { throw error }
        }
        return try hasIndex(expected, under: StorageRoot(anchor: store.existing.root))
    }

    fileprivate func value(of counter: NVIndex) throws(TPMError) -> UInt64 {
        var reader = TPMReader(try nvRead(counter))
        return try reader.read()
    }

    fileprivate func increment(_ counter: NVIndex, of user: UInt32, _ store: AuthorityStore)
        throws(TPMError)
    {
        try withAuthority(store) { (authority) throws(TPMError) in
            try authority.withApproval(of: PresenceReference.enrolmentChange(of: user)) {
                (authorization) throws(TPMError) in
                try execute(NVIncrement(counter), authorizedBy: authorization)
            }
        }
    }

    /// Removes an index that was defined but not written, for example by a broker that was
    /// terminated in between. It uses one of few handles.
    ///
    /// - Parameter publicArea: The public area after the first write.
    func removeUnwritten(_ publicArea: Data) throws(TPMError) {
        let expected = try NVPublicArea(unmarshalling: publicArea)
        do throws(TPMError) {
            let found = try execute(NVReadPublic(expected.index))
            guard found.publicArea != expected, found.publicArea.written == expected else { return }
            try execute(NVUndefineSpace(found))
        } catch {
            // The index does not exist, or the owner's password is required.
            guard error.responseCode != nil else { throw error }
        }
    }

    /// Creates a counter. Its value is higher than that of all earlier counters (Part 1 section
    /// 37.2.4), so old keys stay invalid.
    ///
    /// - Returns: nil if the TPM has no memory.
    fileprivate func makeCounter(of user: UInt32, _ store: AuthorityStore) throws -> NVIndex? {
        guard let handle = try nextAuthorityIndex(store) else { return nil }
        let policy = PolicyDigest().signed(
            by: try authorityName(store), policyRef: PresenceReference.enrolmentChange(of: user))
        let area = NVPublicArea(
            index: handle, attributes: [.policyWrite, .authRead, .ownerRead, .noDA, .counter],
            authPolicy: policy.bytes,
            dataSize: 8)
        // Record the index first, so that it is found again after a crash.
        try store.record(user) {
            $0.enrolment = .init(set: Data(), counter: Data(area.written.marshalled))
        }
        do throws(TPMError) {
            let unwritten = try execute(NVDefineSpace(area))
            try increment(unwritten, of: user, store)
        } catch {
            guard error.command == .nvDefineSpace, error.responseCode != nil else { throw error }
            return nil
        }
        return try NVIndex(publicArea: area.written)
    }
}
