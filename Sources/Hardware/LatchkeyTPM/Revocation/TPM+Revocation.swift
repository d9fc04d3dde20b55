internal import Latchkey
internal import TPM2

extension TPM {
    /// Whether defining NV indices requires the owner's password (`TPMA_PERMANENT`, Part 2 section
    /// 8.6: bit 0 ownerAuthSet).
    func isOwnerPasswordSet() throws(TPMError) -> Bool {
        try properties(from: .permanent, count: 1)[.permanent, default: 0] & 1 != 0
    }

    /// Finds a free handle for a new index. One command.
    ///
    /// - Parameter isContended: Whether another program took the first handle. The search then
    ///   starts at a random handle.
    /// - Throws: ``TPMError`` with ``ResponseCode/nvSpace`` when the maximum number of indices is
    ///   in use.
    func freeHandle(isContended: Bool) throws(TPMError) -> TPMHandle {
        let handles = RevocableSecret.indices
        guard
            let handle = try freeIndex(in: handles, from: isContended ? .random(in: handles) : nil)
        else {
            throw TPMError(
                .response(.nvSpace), command: .nvDefineSpace,
                reason: "the maximum number of revocable secrets is reached")
        }
        return handle
    }

    /// Defines an index and writes a secret to it: StartAuthSession, NV_DefineSpace, NV_Write.
    /// Removes the index on failure.
    ///
    /// - Parameter area: The public area of the new index.
    func writeNewIndex(
        _ secret: SecretBytes, in area: NVPublicArea, _ authValue: AuthValue,
        under root: StorageRoot
    ) throws(TPMError) {
        try withSaltedSession(under: root) { (session, _) throws(TPMError) in
            let index = try execute(
                NVDefineSpace(area, authValue: authValue),
                authorizedBy: .continuing(session, protecting: .decrypt))
            do throws(TPMError) {
                let data = secret.withUnsafeBytes { SensitiveData($0) }
                try execute(
                    NVWrite(data, to: index),
                    authorizedBy: .lastUse(
                        of: session, authValue: authValue, protecting: .decrypt))
            } catch {
                try? execute(NVUndefineSpace(index))
                throw error
            }
        }
    }

    /// Defines an index whose PIN opens a key, and writes it once: StartAuthSession,
    /// NV_DefineSpace, LoadExternal, StartAuthSession, PolicySigned, FlushContext, PolicyOR,
    /// NV_Write, StartAuthSession, NV_Read. Removes the index on failure.
    ///
    /// The read proves that the written index has this authValue. Another user of the TPM can
    /// remove the index before the write, and define it again with an authValue of their own: the
    /// Name does not contain the authValue, and the write does not prove it. After the write, only
    /// the key can make an index of this Name.
    ///
    /// - Parameter key: Authorizes the write, and must be erased afterwards.
    func writeNewGate(
        _ gate: RevocableSecret, in area: NVPublicArea, _ authValue: AuthValue, by key: OnceKey,
        under root: StorageRoot
    ) throws(TPMError) {
        let index = try withSaltedSession(under: root) { (session, _) throws(TPMError) in
            try execute(
                NVDefineSpace(area, authValue: authValue),
                authorizedBy: .lastUse(of: session, protecting: .decrypt))
        }
        do throws(TPMError) {
            try withSaltedSession(.policy, under: root) { (session, _) throws(TPMError) in
                let approval = Approval(nonceTPM: session.nonceTPM, policyRef: OnceKey.reference)
                let signature = try key.sign(approval)
                try lending(try execute(LoadExternal(key.publicArea, in: .owner))) {
                    (authority) throws(TPMError) in
                    _ = try execute(
                        PolicySigned(approval, signature: signature, by: authority), in: session)
                }
                try execute(PolicyOR(gate.branches), in: session)
                try execute(
                    NVWrite(
                        SensitiveData([UInt8](repeating: 0, count: Int(area.dataSize))), to: index),
                    authorizedBy: .lastUse(of: session))
            }
            try withSaltedSession(under: root) { (session, _) throws(TPMError) in
                _ = try nvRead(
                    gate.index, authorizedBy: .lastUse(of: session, authValue: authValue))
            }
        } catch {
            try? execute(NVUndefineSpace(index))
            throw error
        }
    }

    /// Reads a secret: StartAuthSession, NV_Read.
    ///
    /// Only the pinned key can decrypt the salt, so another TPM learns nothing about the PIN.
    func readSecret(
        _ secret: RevocableSecret, _ authValue: AuthValue, under root: StorageRoot
    ) throws(TPMError) -> SecretBytes {
        try withSaltedSession(under: root) { (session, _) throws(TPMError) in
            SecretBytes(
                try execute(
                    NVRead(secret.index),
                    authorizedBy: .lastUse(
                        of: session, authValue: authValue, protecting: .encrypt)))
        }
    }

    /// Reads the secret of an index and derives a key's authValue from it: NV_Read.
    func authValue(
        in secret: RevocableSecret, boundTo binding: KeyBinding,
        authorizedBy authorization: Authorization
    ) throws(TPMError) -> AuthValue {
        let data = try execute(NVRead(secret.index), authorizedBy: authorization)
        return try data.withUnsafeBytes { bytes in
            Result { () throws(TPMError) in
                try PINHardening.authValue(ofSecret: bytes, boundTo: binding)
            }
        }.get()
    }

    /// Finds the index, written or not. Returns nil if it does not exist. One command, whose
    /// response is not authenticated.
    private func existingIndex(of secret: RevocableSecret) throws(TPMError) -> NVIndex? {
        do {
            let found = try execute(NVReadPublic(secret.index.handle))
            return found.publicArea.written == secret.index.publicArea ? found : nil
        } catch {
            guard case .response(.handle) = error.kind else { throw error }
            return nil
        }
    }

    /// Removes the index, if it exists: NV_ReadPublic, StartAuthSession, NV_UndefineSpace.
    ///
    /// Returns only with an authenticated response that the index is gone: that of
    /// NV_UndefineSpace, or of ``TPM/provenIndex(at:auditedBy:)`` if the index seems to be gone
    /// already.
    func remove(_ secret: RevocableSecret, under root: StorageRoot) throws(TPMError) {
        if let existing = try existingIndex(of: secret) {
            do {
                return try withSaltedSession(under: root) { (session, _) throws(TPMError) in
                    try execute(NVUndefineSpace(existing), authorizedBy: .lastUse(of: session))
                }
            } catch {
                // Another process may have removed it first.
                guard error.command == .nvUndefineSpace, error.responseCode?.base == .handle else {
                    throw error
                }
            }
        }
        try withSaltedSession(under: root) { (session, _) throws(TPMError) in
            guard let found = try provenIndex(at: secret.index.handle, auditedBy: session),
                found.publicArea.written == secret.index.publicArea
            else { return }
            try execute(NVUndefineSpace(found), authorizedBy: .lastUse(of: session))
        }
    }

    /// Whether an index exists unchanged. The answer is authenticated.
    func hasIndex(_ index: NVIndex, under root: StorageRoot) throws(TPMError) -> Bool {
        try withSaltedSession(under: root) { (session, _) throws(TPMError) in
            try provenIndex(at: index.handle, auditedBy: session) == index
        }
    }

    /// The authenticated content of an index without an authValue. Nil if the index does not exist
    /// unchanged.
    func provenBytes(of index: NVIndex, under root: StorageRoot) throws(TPMError) -> [UInt8]? {
        try withSaltedSession(under: root) { (session, _) throws(TPMError) in
            guard try provenIndex(at: index.handle, auditedBy: session) == index else { return nil }
            return try nvRead(index, authorizedBy: .continuing(session))
        }
    }
}
