internal import Crypto

/// Session commands, TPM 2.0 Part 3 section 11.
extension TPM {
    /// Opens a session, lends it to `body`, and flushes it unless its last use closed it.
    ///
    /// - Parameters:
    ///   - key: The key to which the session is salted. The caller must know that its public area
    ///     is the TPM's own: do not salt to a key that `ReadPublic` has just returned. Nil opens a
    ///     session that authenticates and encrypts nothing.
    public func withSession<R>(
        _ kind: Session.Kind, saltedTo key: TPMObject?, _ body: (Session) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        try lending(try startAuthSession(kind, saltedTo: key), body)
    }

    /// `TPM2_StartAuthSession` (section 11.1), not bound. The session stays open until it is
    /// flushed or used for the last time, for example by ``withSession(_:saltedTo:_:)``.
    ///
    /// - Parameter key: See ``withSession(_:saltedTo:_:)``.
    package func startAuthSession(_ kind: Session.Kind, saltedTo key: TPMObject?) throws(TPMError)
        -> Session
    {
        var salt: SessionSalt?
        if let key { salt = try SessionSalt(for: key.publicArea) }
        let nonceCaller = Session.randomNonce()
        let parameters = TPMWriter(
            TPM2B(nonceCaller), TPM2B(salt?.encrypted ?? []), kind.rawValue,
            salt == nil ? SymmetricDefinition.null : .aes128CFB, TPMAlgorithm.sha256)
        let handles: [any TPMEntity] = [
            UnnamedEntity(handle: key?.handle ?? .null), Hierarchy.null,
        ]
        return try execute(
            .startAuthSession, on: handles, parameters: parameters, returnsHandle: true
        ) {
            (reader, handle) throws(TPMError) in
            let nonceTPM = try reader.readSized(maximum: 64)
            guard nonceTPM.count == Session.nonceBytes, handle.isSession else {
                throw .malformed(
                    "the nonce of a new session has the wrong length, or its handle has the wrong type"
                )
            }
            return Session(
                handle: handle, kind: kind, salt: salt?.secret, nonceCaller: nonceCaller,
                nonceTPM: nonceTPM)
        }
    }

    /// `TPM2_PolicyRestart` (section 11.2): resets the policy digest of a session.
    package func policyRestart(_ session: Session) throws(TPMError) {
        try executeWithoutResult(.policyRestart, on: [session])
        session.state.needsAuthValue = false
    }
}
