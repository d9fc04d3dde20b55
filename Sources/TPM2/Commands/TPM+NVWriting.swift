extension TPM {
    /// `TPM2_NV_Write` (Part 3 section 31.7) of the whole index.
    ///
    /// - Parameters:
    ///   - data: As many bytes as the index has, at most 512.
    ///   - entity: Who authorizes; nil for the index itself.
    public func nvWrite(
        _ data: some Collection<UInt8>, to index: NVIndex, by entity: (any TPMEntity)? = nil,
        authorizedBy authorization: Authorization
    ) throws(TPMError) {
        var parameters = TPMWriter(capacity: 1024)
        defer { parameters.wipe() }
        parameters.writeSized(data)
        parameters.write(UInt16(0))
        try execute(.nvWrite, on: [entity ?? index, index], authorizedBy: [authorization], parameters: parameters)
    }

    /// `TPM2_NV_Increment` (Part 3 section 31.8) of a counter.
    ///
    /// - Parameter entity: Who authorizes; nil for the index itself.
    public func nvIncrement(
        _ index: NVIndex, by entity: (any TPMEntity)? = nil, authorizedBy authorization: Authorization
    ) throws(TPMError) {
        try execute(.nvIncrement, on: [entity ?? index, index], authorizedBy: [authorization])
    }
}
