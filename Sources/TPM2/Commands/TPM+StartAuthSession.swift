internal import Crypto

extension TPM {
    /// `TPM2_StartAuthSession` (Part 3 section 11.1), not bound. The session stays until it is flushed or used for the
    /// last time; ``withSession(_:saltedTo:_:)`` sees to that.
    ///
    /// - Parameter key: See ``withSession(_:saltedTo:_:)``.
    public func startAuthSession(_ kind: Session.Kind, saltedTo key: TPMObject?) throws(TPMError) -> Session {
        var salt: SessionSalt?
        if let key { salt = try SessionSalt(for: key.publicArea) }
        let nonceCaller = Session.randomNonce()
        var parameters = TPMWriter()
        parameters.writeSized(nonceCaller)
        parameters.writeSized(salt?.encrypted ?? [])
        parameters.write(kind.rawValue)
        parameters.write(salt == nil ? SymmetricDefinition.null : .aes128CFB)
        parameters.write(TPMAlgorithm.sha256)
        let handles: [any TPMEntity] = [HandleOnly(handle: key?.handle ?? .null), Hierarchy.null]
        return try execute(.startAuthSession, on: handles, parameters: parameters, returnsHandle: true) {
            (reader, handle) throws(TPMError) in
            let nonceTPM = try reader.readSized(maximum: 64)
            guard nonceTPM.count == Session.nonceBytes, handle.kind == .hmacSession || handle.kind == .policySession
            else {
                throw .malformed("a session has a nonce of another length or no session handle")
            }
            return Session(
                handle: handle, kind: kind, salt: salt?.secret, nonceCaller: nonceCaller, nonceTPM: nonceTPM)
        }
    }
}
