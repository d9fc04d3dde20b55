internal import FoundationEssentials
internal import Latchkey
internal import TPM2

extension TPM {
    /// Where the approval key is made persistent: the first free handle. In the range that the TCG's registry of
    /// reserved handles leaves to the owner.
    private static let places = (0..<16).map { TPMHandle(rawValue: 0x8102_4c4b + $0) }
    /// Where the broker's indices are, likewise in the owner's range.
    private static let indices = UInt32(0x0180_4c00)..<0x0180_4cff
    /// How many of them there may be, for all users together: a TPM has room for few more, and others want some.
    static let maximumIndices = 32

    /// Makes the approval key the first time, and has it where clients find it without loading it.
    func prepareAuthority(_ store: AuthorityStore) throws(TPMError) -> Result<Void, KeystoreError> {
        let operation = "start the presence broker"
        guard let state = store.current else {
            let root = try discoverStorageRoot(pinned: nil)
            let authValue = try authValue(store)
            let created = try withStorageRoot(root) { (parent) throws(TPMError) in
                try withSession(.hmac, saltedTo: parent) { (session) throws(TPMError) in
                    try create(
                        KeyTemplates.approvalKey, authValue: authValue, under: parent,
                        authorizedBy: .lastUse(of: session, protecting: .decrypt))
                }
            }
            let made = AuthorityState(
                root: root.anchor, publicArea: Data(created.publicArea.marshalled),
                privatePart: Data(created.privatePart.bytes))
            if case .failure(let error) = store.attempt({ () throws(KeystoreError) in try store.replace(made) }) {
                return .failure(error)
            }
            try settleAuthority(store)
            return .success(())
        }
        let root = try StorageRoot(anchor: state.root)
        guard try discoverStorageRoot(pinned: root).name == root.name else {
            return .failure(
                .wrongDevice(operation, "its key belongs to another TPM, or this TPM was cleared since"))
        }
        try settleAuthority(store)
        return .success(())
    }

    /// Lends the approval key.
    func withAuthority<R>(
        _ store: AuthorityStore, _ body: (LoadedAuthority) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        guard let state = store.current, let privatePart = PrivateBlob(bytes: Array(state.privatePart))
        else { throw TPMError(.malformed, reason: "the presence broker's state has no key") }
        let authValue = try authValue(store)
        let publicArea = try PublicArea(unmarshalling: Array(state.publicArea))
        return try withStorageRoot(try StorageRoot(anchor: state.root)) { (parent) throws(TPMError) in
            if let handle = try authorityHandle(store) {
                let key = try TPMObject(handle: handle, publicArea: publicArea)
                return try body(LoadedAuthority(tpm: self, key: key, parent: parent, authValue: authValue))
            }
            return try withLoaded(privatePart, publicArea, under: parent) { (key) throws(TPMError) in
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

    /// Where the approval key is now, if it is there to stay. One command, and one for each handle in use.
    func authorityHandle(_ store: AuthorityStore) throws(TPMError) -> TPMHandle? {
        guard let state = store.current, let first = Self.places.first else { return nil }
        let publicArea = try PublicArea(unmarshalling: Array(state.publicArea))
        for handle in try handles(from: first, count: UInt32(Self.places.count)) where Self.places.contains(handle) {
            guard try readPublic(handle).publicArea == publicArea else { continue }
            return handle
        }
        return nil
    }

    /// A free handle for an index; nil when there are as many as may be.
    func freeIndex() throws(TPMError) -> TPMHandle? {
        try freeIndex(in: Self.indices)
    }

    /// A free handle of a range for an index; nil when ``maximumIndices`` of it are in use.
    ///
    /// - Parameter start: From where on to look first; nil for the range's beginning.
    func freeIndex(in range: Range<UInt32>, from start: UInt32? = nil) throws(TPMError) -> TPMHandle? {
        let start = start ?? range.lowerBound
        let first = TPMHandle(rawValue: range.lowerBound)
        let used = Set(try handles(from: first, count: UInt32(range.count)).filter { range.contains($0.rawValue) })
        guard used.count < Self.maximumIndices else { return nil }
        return [start..<range.upperBound, range.lowerBound..<start].joined().lazy.map(TPMHandle.init(rawValue:))
            .first { !used.contains($0) }
    }

    private func settleAuthority(_ store: AuthorityStore) throws(TPMError) {
        guard try authorityHandle(store) == nil, let first = Self.places.first else { return }
        let used = Set(try handles(from: first, count: UInt32(Self.places.count)))
        guard let place = Self.places.first(where: { !used.contains($0) }) else { return }
        try withAuthority(store) { (authority) throws(TPMError) in
            do throws(TPMError) {
                try evictControl(authority.key, at: place)
            } catch {
                // No room, or not ours to give: clients load the public half for each use then.
                guard error.responseCode != nil else { throw error }
            }
        }
    }
}

extension AuthorityStore {
    func attempt(_ body: () throws(KeystoreError) -> Void) -> Result<Void, KeystoreError> {
        do throws(KeystoreError) {
            return .success(try body())
        } catch {
            return .failure(error)
        }
    }
}

/// The approval key while it is at hand, with what it takes to use it.
struct LoadedAuthority {
    let tpm: TPM
    let key: TPMObject
    /// The storage root key.
    let parent: TPMObject
    let authValue: AuthValue

    /// Signs what an approval says: StartAuthSession, Sign.
    func sign(_ approval: Approval) throws(TPMError) -> TPMSignature {
        try tpm.withSession(.hmac, saltedTo: parent) { (session) throws(TPMError) in
            try tpm.sign(approval.digest, with: key, authorizedBy: .lastUse(of: session, authValue: authValue))
        }
    }

    /// Approves a write of the broker's own, in a session that it alone uses.
    ///
    /// The session is salted, so its HMAC covers the Name of the index: one that somebody made anew, and that was never
    /// written, is not written in place of the one that is meant.
    ///
    /// - Parameter branches: Those of the index's policy.
    func withApproval<R>(
        of reference: [UInt8], among branches: [PolicyDigest] = [], _ body: (Authorization) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        try tpm.withSession(.policy, saltedTo: parent) { (session) throws(TPMError) in
            let approval = Approval(nonceTPM: session.nonceTPM, policyRef: reference)
            _ = try tpm.policySigned(approval, signature: try sign(approval), by: key, in: session)
            if branches.count > 1 { try tpm.policyOR(branches, in: session) }
            return try body(.lastUse(of: session))
        }
    }
}
