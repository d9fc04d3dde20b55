internal import Latchkey
internal import TPM2

extension TPM {
    /// Whether NV indices are the owner's alone to make (`TPMA_PERMANENT`, Part 2 section 8.6: bit 0 ownerAuthSet).
    func isOwnerPasswordSet() throws(TPMError) -> Bool {
        try properties(from: .permanent, count: 1)[.permanent, default: 0] & 1 != 0
    }

    /// A free handle for a new index. One command.
    ///
    /// - Parameter isContended: Whether another program took the first one. Those who make several at once then look from
    ///   different places on.
    /// - Throws: ``TPMError`` with ``ResponseCode/nvSpace`` when there are as many as may be.
    func freePlace(isContended: Bool) throws(TPMError) -> TPMHandle {
        let places = RevocableSecret.indices
        guard let place = try freeIndex(in: places, from: isContended ? .random(in: places) : nil) else {
            throw TPMError(
                .response(.nvSpace), command: .nvDefineSpace, reason: "all places for revocable secrets are in use")
        }
        return place
    }

    /// Puts a secret into an index of its own: StartAuthSession, NV_DefineSpace, NV_Write. Leaves none behind when it
    /// throws.
    ///
    /// - Parameter area: Of an index that is not there yet.
    func keep(
        _ secret: SecretBytes, in area: NVPublicArea, _ authValue: AuthValue, under root: StorageRoot
    ) throws(TPMError) {
        try withSession(under: root) { (session) throws(TPMError) in
            let index = try nvDefineSpace(
                area, authValue: authValue, authorizedBy: .continuing(session, protecting: .decrypt))
            do throws(TPMError) {
                try secret.withUnsafeBytes { (bytes) throws(TPMError) in
                    try nvWrite(
                        bytes, to: index,
                        authorizedBy: .lastUse(of: session, authValue: authValue, protecting: .decrypt))
                }
            } catch {
                try? nvUndefineSpace(index)
                throw error
            }
        }
    }

    /// StartAuthSession, NV_Read.
    ///
    /// Whoever does not hold the pinned key can't know the salt: what is derived from a PIN is of no use to them.
    func read(
        _ secret: RevocableSecret, _ authValue: AuthValue, under root: StorageRoot
    ) throws(TPMError) -> SecretBytes {
        try withSession(under: root) { (session) throws(TPMError) in
            try nvRead(
                secret.index, authorizedBy: .lastUse(of: session, authValue: authValue, protecting: .encrypt)
            ) { bytes in SecretBytes(count: bytes.count) { $0.copyMemory(from: bytes) } }
        }
    }

    /// NV_Read of the secret from which a key's authValue is derived.
    func authValue(
        in secret: RevocableSecret, boundTo binding: KeyBinding?, authorizedBy authorization: Authorization
    ) throws(TPMError) -> AuthValue {
        try nvRead(secret.index, authorizedBy: authorization) { bytes in
            Result { () throws(TPMError) in try PINHardening.authValue(ofSecret: bytes, boundTo: binding) }
        }.get()
    }

    /// The index as the TPM's answer shows it, also where nothing was written to it; nil where it is not there. One
    /// command, whose response carries no proof.
    private func standing(_ secret: RevocableSecret) throws(TPMError) -> NVIndex? {
        do {
            let found = try nvReadPublic(secret.index.handle)
            return found.publicArea.written == secret.index.publicArea ? found : nil
        } catch {
            guard case .response(.handle) = error.kind else { throw error }
            return nil
        }
    }

    /// Removes the index, if it is there: NV_ReadPublic, StartAuthSession, NV_UndefineSpace.
    ///
    /// Returns only with the TPM's proof that the index is gone: the response of NV_UndefineSpace, or that of
    /// ``TPM/provenIndex(at:auditedBy:)`` where the index seems to be gone already.
    func remove(_ secret: RevocableSecret, under root: StorageRoot) throws(TPMError) {
        if let standing = try standing(secret) {
            do {
                return try withSession(under: root) { (session) throws(TPMError) in
                    try nvUndefineSpace(standing, authorizedBy: .lastUse(of: session))
                }
            } catch {
                // Another process may have removed it first.
                guard error.command == .nvUndefineSpace, error.responseCode?.base == .handle else { throw error }
            }
        }
        try withSession(under: root) { (session) throws(TPMError) in
            guard let found = try provenIndex(at: secret.index.handle, auditedBy: session),
                found.publicArea.written == secret.index.publicArea
            else { return }
            try nvUndefineSpace(found, authorizedBy: .lastUse(of: session))
        }
    }

    /// Whether an index is there as it was made, with the TPM's proof of the answer.
    func hasIndex(_ index: NVIndex, under root: StorageRoot) throws(TPMError) -> Bool {
        try withSession(under: root) { (session) throws(TPMError) in
            try provenIndex(at: index.handle, auditedBy: session) == index
        }
    }

    /// The content of an index without an authValue, with the TPM's proof; nil where it is not there as it was made.
    func provenBytes(of index: NVIndex, under root: StorageRoot) throws(TPMError) -> [UInt8]? {
        try withSession(under: root) { (session) throws(TPMError) in
            guard try provenIndex(at: index.handle, auditedBy: session) == index else { return nil }
            return try nvRead(index, authorizedBy: .continuing(session))
        }
    }

    /// Lends an HMAC session that is salted to the pinned storage root key.
    private func withSession<R>(
        under root: StorageRoot, _ body: (Session) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        try withStorageRoot(root) { (parent) throws(TPMError) in
            try withSession(.hmac, saltedTo: parent, body)
        }
    }
}
