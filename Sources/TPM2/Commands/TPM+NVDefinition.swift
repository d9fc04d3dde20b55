internal import Crypto

extension TPM {
    /// `TPM2_NV_DefineSpace` (Part 3 section 31.3), authorized by the owner.
    ///
    /// - Parameters:
    ///   - authValue: The index's. Encrypt it by a session with the attribute `decrypt`.
    /// - Returns: The index, which nothing was written to.
    @discardableResult
    public func nvDefineSpace(
        _ publicArea: NVPublicArea, authValue: AuthValue = .empty,
        authorizedBy authorization: Authorization = .emptyPassword
    ) throws(TPMError) -> NVIndex {
        var parameters = TPMWriter(capacity: 512)
        defer { parameters.wipe() }
        authValue.key.withUnsafeBytes { parameters.writeSized($0) }
        parameters.writeSized(publicArea)
        try execute(
            .nvDefineSpace, on: [Hierarchy.owner], authorizedBy: [authorization], parameters: parameters)
        return try NVIndex(publicArea: publicArea)
    }

    /// `TPM2_NV_UndefineSpace` (Part 3 section 31.4), authorized by the owner.
    public func nvUndefineSpace(
        _ index: NVIndex, authorizedBy authorization: Authorization = .emptyPassword
    ) throws(TPMError) {
        try execute(.nvUndefineSpace, on: [Hierarchy.owner, index], authorizedBy: [authorization])
    }

    /// `TPM2_NV_ChangeAuth` (Part 3 section 31.15): the old authValue is worth nothing from then on.
    ///
    /// - Parameter authorization: In the ADMIN role, which for an index is its policy. Give the session the attribute
    ///   `decrypt`, so that the new authValue crosses the bus encrypted.
    public func nvChangeAuth(
        of index: NVIndex, to newAuthValue: AuthValue, authorizedBy authorization: Authorization
    ) throws(TPMError) {
        var parameters = TPMWriter(capacity: 64)
        defer { parameters.wipe() }
        newAuthValue.key.withUnsafeBytes { parameters.writeSized($0) }
        try execute(
            .nvChangeAuth, on: [index], authorizedBy: [authorization], parameters: parameters,
            newAuthValue: newAuthValue)
    }
}
