internal import FoundationEssentials
internal import Latchkey
internal import TPM2

/// The storage root key, which wraps all keys of this keystore. It is pinned at the first use.
///
/// Sessions are salted to the pinned public area and never to one that was just read, because an
/// attacker on the bus can answer with a different key.
struct StorageRoot: Hashable, Sendable {
    /// The location of the key.
    enum Location: UInt8 {
        /// Persistent at ``TPMHandle/storageRootKey``.
        case persistent = 0
        /// Derived from the owner's seed for each operation, because the handle holds a foreign key
        /// or the TPM has no memory.
        case transient = 1
    }

    let location: Location
    let assuranceRoot: AssuranceLevel.Root
    let publicArea: PublicArea
    let name: TPMName

    init(location: Location, assuranceRoot: AssuranceLevel.Root, publicArea: PublicArea)
        throws(TPMError)
    {
        self.location = location
        self.assuranceRoot = assuranceRoot
        self.publicArea = publicArea
        name = try publicArea.name
    }

    /// The parent in a `TSS2 PRIVATE KEY` file.
    var parentHandle: TPMHandle {
        location == .persistent ? .storageRootKey : Hierarchy.owner.handle
    }
}

extension StorageRoot {
    /// The name of the trust anchor.
    static let anchorName = "tpm/storage-root"

    private static let version: UInt8 = 1

    /// The stored trust anchor: a version, the location, whether the TPM is software, the public
    /// area.
    var anchor: Data {
        let isSimulated = UInt8(assuranceRoot == .tpm ? 0 : 1)
        return Data(
            TPMWriter(Self.version, location.rawValue, isSimulated, TPM2B(publicArea)).bytes)
    }

    /// - Throws: ``TPMError`` of kind `malformed`.
    init(anchor: Data) throws(TPMError) {
        var reader = TPMReader(anchor)
        let version = try reader.read(UInt8.self)
        let location = Location(rawValue: try reader.read())
        let simulated = try reader.read(UInt8.self)
        let publicArea = try reader.readSized(PublicArea.self, maximum: PublicArea.maximumBytes)
        try reader.finish()
        guard version == Self.version, let location, simulated <= 1,
            publicArea.isMade(from: KeyTemplates.storageRoot)
        else {
            throw TPMError(.malformed, reason: "the pinned storage root key has another format")
        }
        try self.init(
            location: location, assuranceRoot: simulated == 0 ? .tpm : .swtpm,
            publicArea: publicArea)
    }
}

extension TPM {
    /// The object at the storage root key's handle.
    enum StorageRootState: Sendable {
        case absent
        case usable(TPMObject)
        /// A key of another kind.
        case foreign
    }

    /// Reads the state without a change. One command.
    func storageRootState() throws(TPMError) -> StorageRootState {
        do {
            let object = try execute(ReadPublic(.storageRootKey))
            return object.publicArea.isMade(from: KeyTemplates.storageRoot)
                ? .usable(object) : .foreign
        } catch {
            guard case .response(.handle) = error.kind else { throw error }
            return .absent
        }
    }

    /// Whether this TPM has the storage root key with this Name, at the handle or derived from the
    /// owner's seed. Changes nothing. Sends one command if the key is at the handle.
    ///
    /// - Throws: The refusal of `CreatePrimary` if the owner's password prevents a decision.
    func hasStorageRoot(named name: TPMName) throws(TPMError) -> Bool {
        if case .usable(let object) = try storageRootState() {
            if object.name == name { return true }
            guard try !isOwnerPasswordSet() else { return false }
        }
        return try withPrimary(KeyTemplates.storageRoot, in: .owner) { $0.name == name }
    }

    /// Finds the storage root key of this TPM and creates it if it is absent.
    ///
    /// - Parameters:
    ///   - pinned: The expected key. A different key is returned, and not made persistent.
    ///   - keepsNew: Whether a new key becomes persistent.
    func discoverStorageRoot(
        pinned: StorageRoot?, keepsNew: Bool = true
    ) throws(TPMError) -> StorageRoot {
        // With a pinned transient root, the object at the handle is never used.
        if let pinned, pinned.location == .transient { return try transientRoot(pinned) }
        switch try storageRootState() {
        case .usable(let object):
            if let pinned, pinned.name != object.name, try !isOwnerPasswordSet() {
                return try transientRoot(pinned)
            }
            return try described(.persistent, object, pinned)
        case .foreign:
            return try transientRoot(pinned)
        case .absent:
            return try withPrimary(KeyTemplates.storageRoot, in: .owner) {
                (primary) throws(TPMError) in
                let candidate = try described(.persistent, primary, pinned)
                guard pinned == nil || candidate.name == pinned?.name else { return candidate }
                let isPersistent = keepsNew ? try persist(primary) : false
                return isPersistent ? candidate : try described(.transient, primary, pinned)
            }
        }
    }

    /// Lends the pinned storage root key.
    ///
    /// A persistent key needs no command: only the pinned key can decrypt the salt of a session,
    /// whichever object is at the handle. If another program has removed or replaced it, the first
    /// command that uses it fails, and `body` runs again with the same key, derived from the owner's
    /// seed. If the other key is an ECC storage key, a session begins, and its first proof fails: it
    /// counts as a wrong attempt if the object or the other key has dictionary-attack protection.
    func withStorageRoot<R>(
        _ root: StorageRoot, _ body: (TPMObject) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        switch root.location {
        case .persistent:
            let object = try TPMObject(handle: .storageRootKey, publicArea: root.publicArea)
            do throws(TPMError) { return try body(object) } catch {
                guard error.concernsParent, try !isPersistent(root) else { throw error }
                return try withDerived(root, orThrow: error, body)
            }
        case .transient:
            let other = TPMError(
                .forged, command: .createPrimary,
                reason: "the TPM derived a storage root key that is not the pinned one")
            return try withDerived(root, orThrow: other, body)
        }
    }

    private func isPersistent(_ root: StorageRoot) throws(TPMError) -> Bool {
        guard case .usable(let object) = try storageRootState() else { return false }
        return object.name == root.name
    }

    /// - Parameter error: Thrown if the owner's seed derives another key.
    private func withDerived<R>(
        _ root: StorageRoot, orThrow error: TPMError,
        _ body: (TPMObject) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        try withPrimary(KeyTemplates.storageRoot, in: .owner) { (primary) throws(TPMError) in
            guard primary.name == root.name else { throw error }
            return try body(primary)
        }
    }

    /// Lends a session that is salted to the pinned storage root key, and that key.
    func withSaltedSession<R>(
        _ kind: Session.Kind = .hmac, under root: StorageRoot,
        _ body: (Session, TPMObject) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        try withStorageRoot(root) { (parent) throws(TPMError) in
            try withSession(kind, saltedTo: parent) { (session) throws(TPMError) in
                try body(session, parent)
            }
        }
    }

    private func transientRoot(_ pinned: StorageRoot?) throws(TPMError) -> StorageRoot {
        try withPrimary(KeyTemplates.storageRoot, in: .owner) { (primary) throws(TPMError) in
            try described(.transient, primary, pinned)
        }
    }

    /// - Returns: False if the TPM has no memory for it, or no command that keeps it. If another
    ///   process was faster, it created the same key.
    private func persist(_ primary: TPMObject) throws(TPMError) -> Bool {
        do {
            try execute(EvictControl(primary, at: .storageRootKey))
            return true
        } catch {
            switch error.kind {
            case .response(.nvDefined): return true
            case .response(.nvSpace), .response(.commandCode): return false
            default: throw error
            }
        }
    }

    private func described(
        _ location: StorageRoot.Location, _ object: TPMObject, _ pinned: StorageRoot?
    ) throws(TPMError) -> StorageRoot {
        // The same key proves the same TPM, so its stored assurance is still valid.
        let assuranceRoot: AssuranceLevel.Root =
            if let pinned, pinned.name == object.name {
                pinned.assuranceRoot
            } else {
                try TPMIdentity(self).isSimulated ? .swtpm : .tpm
            }
        return try StorageRoot(
            location: location, assuranceRoot: assuranceRoot, publicArea: object.publicArea)
    }
}

extension TPMError {
    /// Whether the TPM refused a command that uses the storage root key. These come before the
    /// command that proves the PIN of an object.
    fileprivate var concernsParent: Bool {
        responseCode?.subject != nil
            && [.startAuthSession, .load, .create].contains(command)
    }
}

extension TPMKeystore {
    /// The storage root key for a new object. Reads it before the prompt, so that the user does not
    /// choose a PIN for a key that cannot be created. One command once it is pinned.
    func presentRoot() async throws(KeystoreError) -> StorageRoot {
        let pinned = try await pinnedRoot()
        let keepsNew = keepsStorageRoot
        let found = try await withTPM(explainedBy: explainDiscovery) {
            (tpm) throws(TPMError) in
            try tpm.discoverStorageRoot(pinned: pinned, keepsNew: keepsNew)
        }
        return try await accept(found, pinned)
    }

    /// The storage root key for the use of an object. No command once it is pinned.
    func root(named name: TPMName) async throws(KeystoreError) -> StorageRoot {
        if let pinned = try await pinnedRoot() {
            guard pinned.name == name else { throw Self.otherTPM() }
            return pinned
        }
        guard let found = try await foundRoot(), found.name == name else { throw Self.otherTPM() }
        return try await accept(found, nil)
    }

    /// Explains a refused authorization of the storage root key: the key at the handle has a
    /// password, or it is another key.
    func explainRefusedRoot(
        _ error: TPMError, _ root: StorageRoot
    ) async throws(KeystoreError) -> KeystoreError {
        let state = try await withTPM { (tpm) throws(TPMError) in try tpm.storageRootState() }
        guard case .usable(let object) = state, object.name == root.name else {
            return try await hasRoot(named: root.name)
                ? KeystoreError(error) : Self.otherTPM(underlying: error)
        }
        return KeystoreError(
            code: .unavailable, reason: "the TPM's storage root key has a password",
            recovery:
                "Ask the TPM's administrator to remove it; Latchkey then creates the same key without a password, and other "
                + "programs must use none. For a TPM other than the machine's, add -T and its TCTI: "
                + TPMDiagnosis.removeStorageRootKeyCommand,
            underlying: .init(error))
    }

    static func otherTPM(underlying: TPMError? = nil) -> KeystoreError {
        .wrongDevice(
            "the key or secret belongs to another TPM, or this TPM was cleared",
            underlying: underlying)
    }

    func pinnedRoot() async throws(KeystoreError) -> StorageRoot? {
        guard let anchor = try await anchors.anchor(StorageRoot.anchorName) else { return nil }
        do {
            return try decodedRoot.value(of: anchor) { () throws(TPMError) in
                try StorageRoot(anchor: anchor)
            }
        } catch {
            throw .damaged(
                "the pinned storage root key cannot be decoded", underlying: .init(error))
        }
    }

    /// Whether the answering TPM has the storage root key with this Name.
    func hasRoot(named name: TPMName) async throws(KeystoreError) -> Bool {
        try await withTPM(explainedBy: explainDiscovery) { (tpm) throws(TPMError) in
            try tpm.hasStorageRoot(named: name)
        }
    }

    private func accept(
        _ found: StorageRoot, _ pinned: StorageRoot?
    ) async throws(KeystoreError) -> StorageRoot {
        var existing = pinned
        if existing == nil {
            guard try await storedParents().allSatisfy({ $0 == found.name }) else {
                throw KeystoreError(
                    code: .wrongDevice,
                    reason:
                        "the pinned storage root key is missing from the store, and the stored keys belong to another "
                        + "storage root key than this TPM's",
                    recovery:
                        "Use the machine on which the keys were created, or restore the store from a backup."
                )
            }
            _ = try await anchors.anchor(StorageRoot.anchorName, is: found.anchor)
            existing = try await pinnedRoot()
        }
        guard let existing, existing.name == found.name else {
            throw .wrongDevice(
                "the keys of this store belong to another TPM, or this TPM was cleared")
        }
        return existing
    }

    /// The Names of the storage root keys of all stored keys and secrets. Skips records that cannot
    /// be decoded.
    func storedParents() async throws(KeystoreError) -> Set<TPMName> {
        try await Set(
            anchors.storedBlobs(of: backend).compactMap { blob in
                (try? TPMKeyBlob(blob))?.parentName ?? (try? RevocableSecret(blob))?.parentName
            })
    }

    /// Explains a failure to derive the storage root key or to make it persistent.
    func explainDiscovery(_ error: TPMError) async -> KeystoreError {
        guard [.createPrimary, .evictControl].contains(error.command),
            let code = error.responseCode,
            code.base == .badAuth || code.base == .authFail
        else { return KeystoreError(error) }
        let state: TPM.StorageRootState
        do {
            state = try await device.run { (tpm) throws(TPMError) in try tpm.storageRootState() }
        } catch {
            return KeystoreError(error)
        }
        guard case .absent = state else {
            return KeystoreError(
                code: .unavailable,
                reason:
                    "another program's key has the handle of the TPM's storage root key, and the owner password is set",
                recovery:
                    "Ask the owner to remove the password, entering it with Return and Ctrl-D, so that Latchkey can derive its "
                    + "key: \(TPMDiagnosis.removeOwnerPasswordCommand). For a TPM other than the machine's, add -T and its TCTI.",
                underlying: .init(error))
        }
        return KeystoreError(
            code: .unavailable,
            reason: "the TPM has no storage root key and its owner password is set",
            recovery:
                "Ask the owner to create it, entering the password twice, each time with Return and Ctrl-D: "
                + "\(TPMDiagnosis.storageRootKeyCommand()). For a TPM other than the machine's, add -T and its TCTI.",
            underlying: .init(error))
    }

    /// Finds the storage root key without making it persistent.
    private func foundRoot() async throws(KeystoreError) -> StorageRoot? {
        try await withTPM { (tpm) throws(TPMError) in
            if case .absent = try tpm.storageRootState() { return nil }
            return try tpm.discoverStorageRoot(pinned: nil)
        }
    }
}
