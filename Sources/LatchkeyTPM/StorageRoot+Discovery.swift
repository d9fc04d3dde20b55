internal import Latchkey
internal import TPM2

extension TPM {
    /// What is at the storage root key's handle.
    enum StorageRootState: Sendable {
        case absent
        case usable(TPMObject)
        /// Somebody else's key, of another kind.
        case foreign
    }

    /// Looks, and changes nothing. One command.
    func storageRootState() throws(TPMError) -> StorageRootState {
        do {
            let object = try readPublic(.storageRootKey)
            return object.publicArea.isMade(from: KeyTemplates.storageRoot) ? .usable(object) : .foreign
        } catch {
            guard case .response(.handle) = error.kind else { throw error }
            return .absent
        }
    }

    /// Finds the storage root key of this TPM and makes it where it is absent.
    ///
    /// - Parameter pinned: What it must be. Another key is returned and nothing is made persistent.
    func discoverStorageRoot(pinned: StorageRoot?) throws(TPMError) -> StorageRoot {
        // A pinned transient root says that the handle is of no use here, whatever is in it by now.
        if let pinned, pinned.location == .transient { return try transientRoot(pinned) }
        switch try storageRootState() {
        case .usable(let object):
            return try root(.persistent, object, pinned)
        case .foreign:
            return try transientRoot(pinned)
        case .absent:
            return try withPrimary(KeyTemplates.storageRoot, in: .owner) { (primary) throws(TPMError) in
                let candidate = try root(.persistent, primary, pinned)
                guard pinned == nil || candidate.name == pinned?.name else { return candidate }
                return try persist(primary) ? candidate : try root(.transient, primary, pinned)
            }
        }
    }

    /// Lends the pinned storage root key.
    ///
    /// A persistent one costs no command: whatever is at its handle, a session salted to the pinned point is readable by
    /// the pinned key only.
    func withStorageRoot<R>(
        _ root: StorageRoot, _ body: (TPMObject) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        switch root.location {
        case .persistent:
            return try body(try TPMObject(handle: .storageRootKey, publicArea: root.publicArea))
        case .transient:
            return try withPrimary(KeyTemplates.storageRoot, in: .owner) { (primary) throws(TPMError) in
                guard primary.name == root.name else {
                    throw TPMError(.forged, reason: "the TPM made another storage root key than the pinned one")
                }
                return try body(primary)
            }
        }
    }

    private func transientRoot(_ pinned: StorageRoot?) throws(TPMError) -> StorageRoot {
        try withPrimary(KeyTemplates.storageRoot, in: .owner) { (primary) throws(TPMError) in
            try root(.transient, primary, pinned)
        }
    }

    /// - Returns: False when the TPM has no room for it. Whoever was faster has made the same key.
    private func persist(_ primary: TPMObject) throws(TPMError) -> Bool {
        do {
            try evictControl(primary, at: .storageRootKey)
            return true
        } catch {
            switch error.kind {
            case .response(.nvDefined): return true
            case .response(.nvSpace): return false
            default: throw error
            }
        }
    }

    private func root(
        _ location: StorageRoot.Location, _ object: TPMObject, _ pinned: StorageRoot?
    ) throws(TPMError) -> StorageRoot {
        // The same key is in the same TPM, so what was read about that TPM then holds.
        let assuranceRoot = pinned?.name == object.name ? pinned?.assuranceRoot : nil
        if let assuranceRoot {
            return try StorageRoot(location: location, assuranceRoot: assuranceRoot, publicArea: object.publicArea)
        }
        return try StorageRoot(
            location: location, assuranceRoot: try TPMIdentity(self).isSimulated ? .swtpm : .tpm,
            publicArea: object.publicArea)
    }
}
