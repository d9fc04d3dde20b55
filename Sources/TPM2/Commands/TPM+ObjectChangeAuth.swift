internal import Crypto

extension TPM {
    /// `TPM2_ObjectChangeAuth` (Part 3 section 12.8): wraps the object anew with another authValue. The old private
    /// part goes on working with the old one.
    ///
    /// - Parameter authorization: In the ADMIN role. Give the session the attribute `decrypt`, so that the new authValue
    ///   crosses the bus encrypted.
    public func objectChangeAuth(
        of object: TPMObject, under parent: TPMObject, to newAuthValue: AuthValue,
        authorizedBy authorization: Authorization
    ) throws(TPMError) -> PrivateBlob {
        var parameters = TPMWriter(capacity: 64)
        defer { parameters.wipe() }
        newAuthValue.key.withUnsafeBytes { parameters.writeSized($0) }
        return try execute(
            .objectChangeAuth, on: [object, parent], authorizedBy: [authorization], parameters: parameters
        ) { (reader, _) throws(TPMError) in try reader.read() }
    }
}
