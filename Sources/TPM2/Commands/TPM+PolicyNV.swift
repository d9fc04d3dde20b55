extension TPM {
    /// `TPM_EO_EQ` (Part 2 section 6.13).
    static let equalOperation: UInt16 = 0

    /// `TPM2_PolicyNV` (Part 3 section 23.9): whether the index holds these very bytes from its beginning on.
    ///
    /// - Throws: ``TPMError`` with the response code `policy` when it holds others.
    public func policyNVEquals(
        _ operand: [UInt8], in index: NVIndex, authorizedBy authorization: Authorization = .emptyPassword,
        session: Session
    ) throws(TPMError) {
        var parameters = TPMWriter()
        parameters.writeSized(operand)
        parameters.write(UInt16(0))
        parameters.write(Self.equalOperation)
        try execute(
            .policyNV, on: [index, index, session], authorizedBy: [authorization], parameters: parameters)
    }
}
