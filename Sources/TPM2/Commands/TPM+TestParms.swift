extension TPM {
    /// `TPM2_TestParms` (Part 3 section 30.3): whether the TPM has this curve, these schemes and this cipher.
    ///
    /// - Throws: ``TPMError`` with a response code that names what it lacks.
    public func testParms(_ parameters: ECCParameters) throws(TPMError) {
        var writer = TPMWriter()
        writer.write(TPMAlgorithm.ecc)
        writer.write(parameters)
        try execute(.testParms, parameters: writer)
    }
}
