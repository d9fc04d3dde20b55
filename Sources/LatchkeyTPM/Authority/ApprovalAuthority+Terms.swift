package import FoundationEssentials
package import Latchkey
internal import TPM2

extension ApprovalAuthority {
    /// What a user's keys must be bound to under a policy.
    ///
    /// - Parameter enrolmentSet: See ``approve(_:for:enrolmentSet:elapsed:)``.
    /// - Throws: `KeystoreError` with code `unsupported` when the policy needs a set of fingers and none is given.
    package func terms(
        for user: UInt32, _ policy: AccessPolicy, enrolmentSet: Data?
    ) async throws(KeystoreError) -> PresenceTerms {
        let operation = "state the broker's terms"
        let isBoundToSet = policy.requirement == .biometryCurrentSet
        guard !isBoundToSet || enrolmentSet?.count == 32 else {
            throw .unsupported(
                operation, "the presence broker can't see whether the enrolled fingers change",
                recovery: "Have an administrator let it read fprintd's prints, or use ‘biometry-any’.")
        }
        if isBoundToSet, let enrolmentSet { try await note(enrolmentSet, of: user) }
        return try await work(operation) { (tpm, store) throws(TPMError) in
            var terms = PresenceTerms(
                user: user, authority: store.current?.publicArea ?? Data(),
                authorityHandle: try tpm.authorityHandle(store)?.rawValue)
            if isBoundToSet {
                terms.enrolmentSet = enrolmentSet
                terms.counter = try store.user(user).enrolment?.counter.map { (area) throws(TPMError) in
                    let index = try NVIndex(publicArea: NVPublicArea(unmarshalling: Array(area)))
                    return PresenceTerms.Counter(publicArea: area, value: try tpm.value(of: index))
                }
            }
            if policy.hasPIN {
                terms.userPIN = try tpm.settledPIN(of: user, store)?.terms(try tpm.authorityName(store))
            }
            return terms
        }
    }

    /// Takes notice of a user's fingers. When they changed, what was bound to the old ones is dead from then on, also
    /// for whoever puts this broker's state back.
    package func note(_ enrolmentSet: Data, of user: UInt32) async throws(KeystoreError) {
        let operation = "take notice of the enrolled fingers"
        try await work(operation) { (tpm, store) throws(TPMError) -> Result<Void, KeystoreError> in
            var enrolment = store.user(user).enrolment ?? .init(set: Data(), counter: nil)
            let isIntact =
                try enrolment.counter.map { (area) throws(TPMError) in try tpm.isIntact(area, store) } ?? false
            guard enrolment.set != enrolmentSet || (enrolment.counter != nil && !isIntact) else { return .success(()) }
            if isIntact, let area = enrolment.counter {
                try tpm.increment(try NVIndex(publicArea: NVPublicArea(unmarshalling: Array(area))), of: user, store)
            } else {
                if let area = enrolment.counter { try tpm.removeUnwritten(area) }
                enrolment.counter = try tpm.makeCounter(of: user, store).map { Data($0.publicArea.marshalled) }
            }
            enrolment.set = enrolmentSet
            return store.attempt { () throws(KeystoreError) in
                try store.update(user) { $0.enrolment = enrolment }
            }
        }
    }

    /// Whether anything of a user dies with the fingers, so that their changes are worth looking for.
    package func isBoundToFingers(_ user: UInt32) -> Bool { store.user(user).enrolment != nil }

    /// The users of whom that is so.
    package var usersBoundToFingers: [UInt32] {
        (store.current?.users ?? [:]).filter { $0.value.enrolment != nil }.map(\.key)
    }
}

extension TPM {
    func authorityName(_ store: AuthorityStore) throws(TPMError) -> TPMName {
        guard let state = store.current else { throw TPMError(.malformed, reason: "there is no approval key") }
        return try PublicArea(unmarshalling: Array(state.publicArea)).name
    }

    /// Whether an index is as it was made, and was written by us. One command where it is; else the TPM has to prove that
    /// it is not, since the broker forgets such an index.
    func isIntact(_ publicArea: Data, _ store: AuthorityStore) throws(TPMError) -> Bool {
        let expected = try NVIndex(publicArea: NVPublicArea(unmarshalling: Array(publicArea)))
        do {
            if try nvReadPublic(expected.handle) == expected { return true }
        } catch {
            guard case .response(.handle) = error.kind else { throw error }
        }
        guard let state = store.current else { throw TPMError(.malformed, reason: "there is no approval key") }
        return try hasIndex(expected, under: StorageRoot(anchor: state.root))
    }

    fileprivate func value(of counter: NVIndex) throws(TPMError) -> UInt64 {
        var reader = TPMReader(try nvRead(counter))
        return try reader.read()
    }

    fileprivate func increment(_ counter: NVIndex, of user: UInt32, _ store: AuthorityStore) throws(TPMError) {
        try withAuthority(store) { (authority) throws(TPMError) in
            try authority.withApproval(of: PresenceReference.enrolmentChange(of: user)) {
                (authorization) throws(TPMError) in
                try nvIncrement(counter, authorizedBy: authorization)
            }
        }
    }

    /// Removes an index that was defined and never written, as when its maker was ended in between: it opens nothing, and
    /// takes one of few places.
    ///
    /// - Parameter publicArea: After the first write.
    func removeUnwritten(_ publicArea: Data) throws(TPMError) {
        let expected = try NVPublicArea(unmarshalling: Array(publicArea))
        do throws(TPMError) {
            let found = try nvReadPublic(expected.index)
            guard found.publicArea != expected, found.publicArea.written == expected else { return }
            try nvUndefineSpace(found)
        } catch {
            // It is not there, or not ours to take.
            guard error.responseCode != nil else { throw error }
        }
    }

    private func keep(
        _ enrolment: AuthorityState.Enrolment, of user: UInt32, _ store: AuthorityStore
    ) throws(TPMError) {
        do throws(KeystoreError) {
            try store.update(user) { $0.enrolment = enrolment }
        } catch {
            throw TPMError(.unsupported, reason: "\(error)")
        }
    }

    /// - Returns: nil where the TPM has no room. A new counter begins above every old one (Part 1 section 37.2.4), so
    ///   that one made anew opens nothing.
    fileprivate func makeCounter(of user: UInt32, _ store: AuthorityStore) throws(TPMError) -> NVIndex? {
        guard let place = try freeIndex() else { return nil }
        let policy = PolicyDigest().signed(
            by: try authorityName(store), policyRef: PresenceReference.enrolmentChange(of: user))
        let area = NVPublicArea(
            index: place, attributes: [.policyWrite, .authRead, .ownerRead, .noDA, .counter], authPolicy: policy.bytes,
            dataSize: 8)
        // Noted first, so that what a crash leaves is found again.
        try keep(.init(set: Data(), counter: Data(area.written.marshalled)), of: user, store)
        do throws(TPMError) {
            let unwritten = try nvDefineSpace(area)
            try increment(unwritten, of: user, store)
        } catch {
            guard error.command == .nvDefineSpace, error.responseCode != nil else { throw error }
            return nil
        }
        return try NVIndex(publicArea: area.written)
    }
}
