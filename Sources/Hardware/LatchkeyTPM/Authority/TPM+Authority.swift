internal import FoundationEssentials
internal import Latchkey
internal import TPM2

extension TPM {
    /// The handles for the persistent approval key, in the owner's range (TCG registry of reserved
    /// TPM 2.0 handles and localities).
    private static let keyHandles = (0..<16).map { TPMHandle(rawValue: 0x8102_4c4b + $0) }
    /// The handles of the broker's indices, in the owner's range.
    static let authorityIndices = UInt32(0x0180_4c00)..<0x0180_4cff
    /// The maximum number of indices in a range, for all users together. It leaves TPM memory for
    /// other programs.
    static let maximumIndices = 32

    private static let recoveryOfAuthority: Recovery =
        "Ask an administrator to give the presence broker a new key: stop latchkey-presenced, delete authority.json and authority.secret in /var/lib/latchkey-presenced, and start it."

    /// Creates the approval key at the first start, and makes it persistent, so that clients need
    /// not load it.
    ///
    /// - Throws: ``TPMError`` or `KeystoreError`.
    func prepareAuthority(_ store: AuthorityStore) throws {
        if let state = store.current {
            let root = try StorageRoot(anchor: state.root)
            guard try discoverStorageRoot(pinned: root).name == root.name else {
                throw KeystoreError(
                    code: .wrongDevice,
                    reason:
                        "the presence broker's key belongs to another TPM, or this TPM was cleared",
                    recovery: Self.recoveryOfAuthority)
            }
        } else {
            let root = try discoverStorageRoot(pinned: nil)
            let authValue = try authValue(store)
            let created = try withSaltedSession(under: root) { (session, parent) throws(TPMError) in
                try execute(
                    Create(KeyTemplates.approvalKey, authValue: authValue, under: parent),
                    authorizedBy: .lastUse(of: session, protecting: .decrypt))
            }
            try store.replace(
                AuthorityState(
                    root: root.anchor, publicArea: Data(created.publicArea.marshalled),
                    privatePart: Data(created.privatePart.bytes)))
        }
        try persistAuthority(store)
    }

    /// Lends the approval key.
    func withAuthority<R>(
        _ store: AuthorityStore, _ body: (LoadedAuthority) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        try withAuthority(store, at: try authorityHandle(store), body)
    }

    /// - Parameter handle: The persistent handle of the key; nil to load it for this use.
    func withAuthority<R>(
        _ store: AuthorityStore, at handle: TPMHandle?,
        _ body: (LoadedAuthority) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        let state = try store.existing
        guard let privatePart = PrivateBlob(bytes: Array(state.privatePart)) else {
            throw TPMError(.malformed, reason: "the presence broker's state has no key")
        }
        let authValue = try authValue(store)
        let publicArea = try PublicArea(unmarshalling: state.publicArea)
        return try withStorageRoot(try StorageRoot(anchor: state.root)) {
            (parent) throws(TPMError) in
            if let handle {
                let key = try TPMObject(handle: handle, publicArea: publicArea)
                return try body(
                    LoadedAuthority(tpm: self, key: key, parent: parent, authValue: authValue))
            }
            return try withLoaded(privatePart, publicArea, under: parent) {
                (key) throws(TPMError) in
                try body(LoadedAuthority(tpm: self, key: key, parent: parent, authValue: authValue))
            }
        }
    }

    private func authValue(_ store: AuthorityStore) throws(TPMError) -> AuthValue {
        guard let authValue = store.secret.bytes.withUnsafeBytes({ AuthValue($0) }) else {
            throw TPMError(.unsupported, reason: "an authValue is too long")
        }
        return authValue
    }

    /// Finds the persistent approval key. One command, and one for each handle in use.
    func authorityHandle(_ store: AuthorityStore) throws(TPMError) -> TPMHandle? {
        guard let state = store.current, let first = Self.keyHandles.first else { return nil }
        let publicArea = try PublicArea(unmarshalling: state.publicArea)
        for handle in try handles(from: first, count: UInt32(Self.keyHandles.count))
        where Self.keyHandles.contains(handle) {
            guard try execute(ReadPublic(handle)).publicArea == publicArea else { continue }
            return handle
        }
        return nil
    }

    /// Finds a free handle for an index in a range. Nil when ``maximumIndices`` are in use.
    ///
    /// - Parameter start: The first handle to try. Nil for the first of the range.
    func freeIndex(in range: Range<UInt32>, from start: UInt32? = nil) throws(TPMError)
        -> TPMHandle?
    {
        let start = start ?? range.lowerBound
        let first = TPMHandle(rawValue: range.lowerBound)
        let used = Set(
            try handles(from: first, count: UInt32(range.count)).filter {
                range.contains($0.rawValue)
            })
        guard used.count < Self.maximumIndices else { return nil }
        return [start..<range.upperBound, range.lowerBound..<start].joined().lazy.map(
            TPMHandle.init(rawValue:)
        )
        .first { !used.contains($0) }
    }

    /// Finds a handle for an index of the broker. Handles are used in turn.
    ///
    /// Keys name the index that another program removed. If a new index got its handle at once, the
    /// PIN of these keys would count as a wrong PIN of the other user.
    ///
    /// - Returns: nil when ``maximumIndices`` are in use.
    func nextAuthorityIndex(_ store: AuthorityStore) throws -> TPMHandle? {
        let next = store.current?.lastIndex.map { $0 + 1 }
        let start = next.flatMap { Self.authorityIndices.contains($0) ? $0 : nil }
        guard let handle = try freeIndex(in: Self.authorityIndices, from: start) else { return nil }
        try store.record(lastIndex: handle.rawValue)
        return handle
    }

    private func persistAuthority(_ store: AuthorityStore) throws(TPMError) {
        guard try authorityHandle(store) == nil, let first = Self.keyHandles.first else { return }
        let used = Set(try handles(from: first, count: UInt32(Self.keyHandles.count)))
        guard let handle = Self.keyHandles.first(where: { !used.contains($0) }) else { return }
        try withAuthority(store) { (authority) throws(TPMError) in
            do throws(TPMError) {
                try execute(EvictControl(authority.key, at: handle))
            } catch {
                // Without memory or the owner's password, clients load the public area for each
                // use.
                guard error.responseCode != nil else { throw error }
            }
        }
    }
}

extension AuthorityStore {
    /// The state, which exists after the presence broker has started.
    var existing: AuthorityState {
        get throws(TPMError) {
            guard let current else {
                throw TPMError(.malformed, reason: "the presence broker's state has no key")
            }
            return current
        }
    }

    /// Changes the record of one user between commands of the TPM.
    func record(_ user: UInt32, _ change: (inout AuthorityState.User) -> Void) throws(TPMError) {
        do {
            try update(user, change)
        } catch {
            throw TPMError(.unsupported, reason: "\(error)")
        }
    }
}

/// The loaded approval key with its authorization.
struct LoadedAuthority {
    let tpm: TPM
    let key: TPMObject
    /// The storage root key.
    let parent: TPMObject
    let authValue: AuthValue

    /// Signs an approval: StartAuthSession, Sign.
    func sign(_ approval: Approval) throws(TPMError) -> TPMSignature {
        try tpm.withSession(.hmac, saltedTo: parent) { (session) throws(TPMError) in
            try tpm.execute(
                Sign(approval.digest, with: key),
                authorizedBy: .lastUse(of: session, authValue: authValue))
        }
    }

    /// Approves a write by the broker itself, in its own session.
    ///
    /// The session is salted, so its HMAC covers the Name of the index. The TPM rejects the write
    /// to an index that another program defined at the same handle.
    ///
    /// - Parameter branches: The branches of the index's policy.
    func withApproval<R>(
        of reference: [UInt8], among branches: [PolicyDigest] = [],
        _ body: (Authorization) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        try tpm.withSession(.policy, saltedTo: parent) { (session) throws(TPMError) in
            let approval = Approval(nonceTPM: session.nonceTPM, policyRef: reference)
            _ = try tpm.execute(
                PolicySigned(approval, signature: try sign(approval), by: key), in: session)
            if branches.count > 1 { try tpm.execute(PolicyOR(branches), in: session) }
            return try body(.lastUse(of: session))
        }
    }
}
