internal import FoundationEssentials
internal import Latchkey
internal import TPM2

/// The key under which everything of this keystore is wrapped, as it is pinned at the first use.
///
/// Sessions are salted to the pinned public area, never to one that was just read: whoever sits on the bus can answer
/// with a key of its own (rule R2 of the TPM reference).
struct StorageRoot: Hashable, Sendable {
    /// Where the key is.
    enum Location: UInt8 {
        /// At ``TPMHandle/storageRootKey``.
        case persistent = 0
        /// Made from the owner's seed for each operation: the handle holds somebody else's key, or there is no room.
        case transient = 1
    }

    let location: Location
    let assuranceRoot: AssuranceLevel.Root
    let publicArea: PublicArea
    let name: TPMName

    init(location: Location, assuranceRoot: AssuranceLevel.Root, publicArea: PublicArea) throws(TPMError) {
        self.location = location
        self.assuranceRoot = assuranceRoot
        self.publicArea = publicArea
        name = try publicArea.name
    }

    /// The parent as a `TSS2 PRIVATE KEY` names it.
    var parentHandle: TPMHandle {
        location == .persistent ? .storageRootKey : Hierarchy.owner.handle
    }
}

extension StorageRoot {
    /// The name under which it is pinned.
    static let anchorName = "tpm/storage-root"

    private static let version: UInt8 = 1

    /// The pinned form: a version, the location, whether the TPM is software, the public area.
    var anchor: Data {
        var writer = TPMWriter()
        writer.write(Self.version)
        writer.write(location.rawValue)
        writer.write(UInt8(assuranceRoot == .tpm ? 0 : 1))
        writer.writeSized(publicArea)
        return Data(writer.bytes)
    }

    /// - Throws: ``TPMError`` of kind `malformed`.
    init(anchor: Data) throws(TPMError) {
        var reader = TPMReader(anchor)
        let version = try reader.read(UInt8.self)
        let location = Location(rawValue: try reader.read())
        let simulated = try reader.read(UInt8.self)
        let publicArea = try reader.readSized(PublicArea.self, maximum: PublicArea.maximumBytes)
        try reader.finish()
        guard version == Self.version, let location, simulated <= 1, publicArea.isMade(from: KeyTemplates.storageRoot)
        else { throw TPMError(.malformed, reason: "the pinned storage root key has another form") }
        try self.init(location: location, assuranceRoot: simulated == 0 ? .tpm : .swtpm, publicArea: publicArea)
    }
}

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
