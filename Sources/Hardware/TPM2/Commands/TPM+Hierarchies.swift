/// Hierarchy and dictionary attack commands, TPM 2.0 Part 3 sections 24 and 25.
extension TPM {
    /// Creates a primary object, lends it to `body`, and flushes it.
    public func withPrimary<R>(
        _ template: PublicArea, in hierarchy: Hierarchy,
        authorizedBy authorization: Authorization = .emptyPassword,
        _ body: (TPMObject) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        let primary = try createPrimary(template, in: hierarchy, authorizedBy: authorization)
        return try lending(primary, body)
    }

    /// `TPM2_CreatePrimary` (section 24.1): derives a key from the seed of a hierarchy. The same
    /// template creates the same key until the hierarchy is cleared.
    ///
    /// The object stays loaded until it is flushed, for example by
    /// ``withPrimary(_:in:authorizedBy:_:)``.
    package func createPrimary(
        _ template: PublicArea, in hierarchy: Hierarchy,
        authorizedBy authorization: Authorization = .emptyPassword
    ) throws(TPMError) -> TPMObject {
        // TPM2B_SENSITIVE_CREATE with an empty authValue and no data, the template, no outsideInfo,
        // no PCRs.
        let parameters = TPMWriter(TPM2B([0, 0, 0, 0]), TPM2B(template), TPM2B(), UInt32(0))
        return try execute(
            .createPrimary, on: [hierarchy], authorizedBy: [authorization], parameters: parameters,
            returnsHandle: true
        ) { (reader, handle) throws(TPMError) in
            let publicArea = try reader.readSized(PublicArea.self, maximum: PublicArea.maximumBytes)
            _ = try reader.readSized(CreationData.self, maximum: 1024)
            _ = try reader.readSized(maximum: 64)
            _ = try reader.read(Ticket.self)
            return try Self.named(TPMObject(handle: handle, publicArea: publicArea), &reader)
        }
    }

    /// `TPM2_DictionaryAttackLockReset` (section 25.4): ends a lockout. A wrong lockoutAuth
    /// disables this command for ``TPMProperty/lockoutRecovery`` seconds.
    package func dictionaryAttackLockReset(authorizedBy authorization: Authorization)
        throws(TPMError)
    {
        try executeWithoutResult(
            .dictionaryAttackLockReset, on: [Hierarchy.lockout], authorizedBy: [authorization])
    }
}
