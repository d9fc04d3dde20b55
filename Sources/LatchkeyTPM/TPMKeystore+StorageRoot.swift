internal import Latchkey
internal import TPM2

extension TPMKeystore {
    /// The storage root key for making something: it is looked at first, so that nobody chooses a PIN for a key that
    /// can't be made. One command once it is pinned.
    func presentRoot(_ operation: String) async throws(KeystoreError) -> StorageRoot {
        let pinned = try await pinnedRoot(operation)
        let found = try await discoverRoot(operation, pinned: pinned)
        return try await accept(found, pinned, operation)
    }

    /// The storage root key for using something. No command once it is pinned.
    func root(of blob: TPMKeyBlob, _ operation: String) async throws(KeystoreError) -> StorageRoot {
        try await root(named: blob.parentName, operation)
    }

    func root(named name: TPMName, _ operation: String) async throws(KeystoreError) -> StorageRoot {
        if let pinned = try await pinnedRoot(operation) {
            guard pinned.name == name else { throw otherTPM(operation) }
            return pinned
        }
        let found = try await foundRoot(operation)
        guard let found, found.name == name else { throw otherTPM(operation) }
        return try await accept(found, nil, operation)
    }

    func otherTPM(_ operation: String, underlying: TPMError? = nil) -> KeystoreError {
        .wrongDevice(operation, "it belongs to another TPM, or this TPM was cleared since", underlying: underlying)
    }

    func pinnedRoot(_ operation: String) async throws(KeystoreError) -> StorageRoot? {
        guard let anchor = try await anchors.anchor(StorageRoot.anchorName) else { return nil }
        do {
            return try StorageRoot(anchor: anchor)
        } catch {
            throw .damaged(operation, "the pinned storage root key can't be read", underlying: .init(error))
        }
    }

    /// Whether the TPM that answers now has the pinned storage root key.
    func isPinned(_ root: StorageRoot, _ operation: String) async throws(KeystoreError) -> Bool {
        try await foundRoot(operation, expecting: root.location)?.name == root.name
    }

    private func accept(
        _ found: StorageRoot, _ pinned: StorageRoot?, _ operation: String
    ) async throws(KeystoreError) -> StorageRoot {
        var standing = pinned
        if standing == nil {
            guard try await storedParents().allSatisfy({ $0 == found.name }) else {
                throw KeystoreError(
                    operation: operation, code: .wrongDevice,
                    reason:
                        "the pinned storage root key is missing from the store, and the stored keys belong to another "
                        + "storage root key than this TPM's",
                    recovery: "Use the machine on which the keys were made, or restore the store from a backup.")
            }
            _ = try await anchors.anchor(StorageRoot.anchorName, is: found.anchor)
            standing = try await pinnedRoot(operation)
        }
        guard let standing, standing.name == found.name else {
            throw .wrongDevice(operation, "this store's keys belong to another TPM, or this TPM was cleared since")
        }
        return standing
    }

    /// The storage root keys under which stored keys and secrets are wrapped. One that cannot be read names none.
    func storedParents() async throws(KeystoreError) -> Set<TPMName> {
        try await Set(
            anchors.storedBlobs(of: backend).compactMap { blob in
                (try? TPMKeyBlob(blob))?.parentName ?? (try? RevocableSecret(blob))?.parentName
            })
    }

    private func discoverRoot(_ operation: String, pinned: StorageRoot?) async throws(KeystoreError) -> StorageRoot {
        do {
            return try await device.visit { (tpm) throws(TPMError) in try tpm.discoverStorageRoot(pinned: pinned) }
        } catch {
            guard [.createPrimary, .evictControl].contains(error.command), let code = error.responseCode,
                code.base == .badAuth || code.base == .authFail
            else { throw KeystoreError(error, during: operation) }
            throw KeystoreError(
                operation: operation, code: .unavailable,
                reason: "the TPM has no storage root key and its owner password is set",
                recovery:
                    "Have the owner make the ECC storage root key at 0x81000001, for example with tpm2_createprimary "
                    + "-G ecc and tpm2_evictcontrol.", underlying: .init(error))
        }
    }

    /// Looks without making anything persistent.
    private func foundRoot(
        _ operation: String, expecting location: StorageRoot.Location = .persistent
    ) async throws(KeystoreError) -> StorageRoot? {
        try await visit(operation) { (tpm) throws(TPMError) in
            let state = location == .persistent ? try tpm.storageRootState() : .foreign
            switch state {
            case .absent: return nil
            case .usable, .foreign: return try tpm.discoverStorageRoot(pinned: nil)
            }
        }
    }
}
