package import Latchkey
internal import TPM2

extension TPMKeystore {
    /// Looks at the TPM and changes nothing.
    package func diagnose() async throws(KeystoreError) -> TPMDiagnosis {
        let pinned = try await pinnedRoot("look at the TPM")
        let parents = pinned == nil ? try await storedParents() : []
        return try await visit("look at the TPM") { (tpm) throws(TPMError) in try tpm.diagnosis(pinned, parents) }
    }
}

extension TPM {
    fileprivate func diagnosis(_ pinned: StorageRoot?, _ parents: Set<TPMName>) throws(TPMError) -> TPMDiagnosis {
        let state = try storageRootState()
        let hasCurve = try curves().contains(.nistP256)
        let signs = try signsWithP256()
        let isPlaceLeft = try freeIndex(in: RevocableSecret.indices) != nil
        // TPMA_PERMANENT (Part 2 section 8.6): bit 0 ownerAuthSet, bit 2 lockoutAuthSet.
        let permanent = try properties(from: .permanent, count: 1)[.permanent] ?? 0
        let isOwnerPasswordSet = permanent & 1 != 0
        return TPMDiagnosis(
            identity: try TPMIdentity(self), storageRootKey: state.kind,
            pin: try comparison(of: state, with: pinned, parents, mayMake: !isOwnerPasswordSet),
            isOwnerPasswordSet: isOwnerPasswordSet, hasPlaceForRevocable: isPlaceLeft,
            isLockoutPasswordSet: permanent & TPM.lockoutAuthSet != 0,
            pinStatus: try LockoutState(self).status, hasP256: hasCurve && signs)
    }

    /// Where the key is not in its place, one is made from the owner's seed, compared and forgotten: a TPM that was
    /// cleared has another seed.
    private func comparison(
        of state: StorageRootState, with pinned: StorageRoot?, _ parents: Set<TPMName>, mayMake: Bool
    ) throws(TPMError) -> TPMDiagnosis.Pin {
        if case .usable(let object) = state, parents.contains(where: { $0 != object.name }) { return .different }
        let comparison = state.compared(with: pinned)
        guard comparison == .undecided, mayMake, let pinned else { return comparison }
        return try withPrimary(KeyTemplates.storageRoot, in: .owner) { (primary) throws(TPMError) in
            primary.name == pinned.name ? .same : .different
        }
    }

    private func signsWithP256() throws(TPMError) -> Bool {
        do {
            try testParms(ECCParameters(scheme: .ecdsaSHA256))
            return true
        } catch {
            guard error.responseCode != nil else { throw error }
            return false
        }
    }
}

extension TPM.StorageRootState {
    fileprivate var kind: TPMDiagnosis.StorageRootKey {
        switch self {
        case .absent: .absent
        case .usable: .present
        case .foreign: .foreign
        }
    }

    fileprivate func compared(with pinned: StorageRoot?) -> TPMDiagnosis.Pin {
        guard let pinned else { return .none }
        switch self {
        case .usable(let object): return object.name == pinned.name ? .same : .different
        case .absent: return .undecided
        case .foreign: return pinned.location == .transient ? .same : .different
        }
    }
}
