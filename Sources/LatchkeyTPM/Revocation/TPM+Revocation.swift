internal import Latchkey
internal import TPM2

extension TPM {
    /// How often a handle is chosen anew that another program was faster to take.
    private static let maximumPlaces = 4

    /// Whether NV indices are the owner's alone to make (`TPMA_PERMANENT`, Part 2 section 8.6: bit 0 ownerAuthSet).
    func isOwnerPasswordSet() throws(TPMError) -> Bool {
        try properties(from: .permanent, count: 1)[.permanent, default: 0] & 1 != 0
    }

    /// Puts the half of a secret into an index of its own: StartAuthSession, GetCapability, NV_DefineSpace, NV_Write.
    /// Leaves none behind when it throws.
    ///
    /// - Parameter sealed: The other half, which opens the index.
    func keep(_ half: SecretBytes, for sealed: SecretBytes, under root: StorageRoot) throws(TPMError) -> RevocableHalf {
        let authValue = try RevocableHalf.authValue(sealed)
        return try withStorageRoot(root) { (parent) throws(TPMError) in
            try withSession(.hmac, saltedTo: parent) { (session) throws(TPMError) in
                let unwritten = try defineIndex(authValue, session)
                do throws(TPMError) {
                    try half.withUnsafeBytes { (bytes) throws(TPMError) in
                        try nvWrite(
                            bytes, to: unwritten,
                            authorizedBy: .lastUse(of: session, authValue: authValue, protecting: .decrypt))
                    }
                    return try RevocableHalf(unwritten.publicArea.written)
                } catch {
                    try? nvUndefineSpace(unwritten)
                    throw error
                }
            }
        }
    }

    private func defineIndex(_ authValue: AuthValue, _ session: Session) throws(TPMError) -> NVIndex {
        for _ in 1..<Self.maximumPlaces {
            do throws(TPMError) {
                return try defineIndexOnce(authValue, session)
            } catch {
                guard error.responseCode == .nvDefined else { throw error }
            }
        }
        return try defineIndexOnce(authValue, session)
    }

    private func defineIndexOnce(_ authValue: AuthValue, _ session: Session) throws(TPMError) -> NVIndex {
        guard let place = try freeIndex(in: RevocableHalf.indices) else {
            throw TPMError(
                .response(.nvSpace), command: .nvDefineSpace, reason: "all places for revocable secrets are in use")
        }
        return try nvDefineSpace(
            RevocableHalf.unwritten(at: place), authValue: authValue,
            authorizedBy: .continuing(session, protecting: .decrypt))
    }

    /// Unseals, and where the session can do that too, reads the half that the TPM keeps. A policy session can't: it
    /// satisfies the object's policy and nothing else.
    func open(
        _ object: TPMObject, and half: RevocableHalf?, _ authorization: TPMKeystore.UseAuthorization
    ) throws(TPMError) -> (sealed: SecretBytes, half: SecretBytes?) {
        let last = authorization(.encrypt)
        guard let half, case .session(let session, let authValue, _) = last, session.kind == .hmac else {
            return (try unseal(object, authorizedBy: last, SecretBytes.init(copying:)), nil)
        }
        let sealed = try unseal(
            object, authorizedBy: .continuing(session, authValue: authValue, protecting: .encrypt),
            SecretBytes.init(copying:))
        return (sealed, try read(half, sealed, session))
    }

    /// Reads the half that belongs to what was unsealed; ends the session.
    func read(_ half: RevocableHalf, _ sealed: SecretBytes, _ session: Session) throws(TPMError) -> SecretBytes {
        try nvRead(
            half.index,
            authorizedBy: .lastUse(
                of: session, authValue: try RevocableHalf.authValue(sealed), protecting: .encrypt),
            SecretBytes.init(copying:))
    }

    /// Removes the index, if it is there: NV_ReadPublic, StartAuthSession, NV_UndefineSpace. The answer is the TPM's own:
    /// nobody on the bus can say that it is done.
    ///
    /// - Returns: Whether it was there.
    func remove(_ half: RevocableHalf, under root: StorageRoot) throws(TPMError) -> Bool {
        do {
            guard try nvReadPublic(half.index.handle).name == half.index.name else { return false }
        } catch {
            guard case .response(.handle) = error.kind else { throw error }
            return false
        }
        try withStorageRoot(root) { (parent) throws(TPMError) in
            try withSession(.hmac, saltedTo: parent) { (session) throws(TPMError) in
                try nvUndefineSpace(half.index, authorizedBy: .lastUse(of: session))
            }
        }
        return true
    }
}

extension SecretBytes {
    fileprivate init(copying bytes: UnsafeRawBufferPointer) {
        self.init(count: bytes.count) { $0.copyMemory(from: bytes) }
    }
}
