extension TPM {
    /// `TPM2_EvictControl` (Part 3 section 28.5): makes a loaded object persistent at `handle`, or, when `object` is
    /// persistent itself, removes it.
    public func evictControl(
        _ object: TPMObject, at handle: TPMHandle, in hierarchy: Hierarchy = .owner,
        authorizedBy authorization: Authorization = .emptyPassword
    ) throws(TPMError) {
        var parameters = TPMWriter()
        parameters.write(handle)
        try execute(
            .evictControl, on: [hierarchy, object], authorizedBy: [authorization], parameters: parameters)
    }
}
