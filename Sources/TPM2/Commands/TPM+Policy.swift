extension TPM {
    /// `TPM2_PolicyAuthValue` (Part 3 section 23.17).
    public func policyAuthValue(_ session: Session) throws(TPMError) {
        try execute(.policyAuthValue, on: [session])
        session.needsAuthValue = true
    }

    /// `TPM2_PolicyCommandCode` (Part 3 section 23.11).
    public func policyCommandCode(_ code: TPMCommandCode, in session: Session) throws(TPMError) {
        var parameters = TPMWriter()
        parameters.write(code.rawValue)
        try execute(.policyCommandCode, on: [session], parameters: parameters)
    }

    /// `TPM2_PolicyOR` (Part 3 section 23.6): 2 to 8 branches, one of which the session has satisfied.
    public func policyOR(_ branches: [PolicyDigest], in session: Session) throws(TPMError) {
        var parameters = TPMWriter()
        parameters.write(UInt32(branches.count))
        for branch in branches { parameters.writeSized(branch.bytes) }
        try execute(.policyOR, on: [session], parameters: parameters)
    }

    /// `TPM2_PolicyGetDigest` (Part 3 section 23.19).
    ///
    /// - Returns: 32 bytes.
    public func policyGetDigest(_ session: Session) throws(TPMError) -> [UInt8] {
        try execute(.policyGetDigest, on: [session]) { (reader, _) throws(TPMError) in
            try reader.readSized(maximum: 64)
        }
    }

    /// `TPM2_PolicyRestart` (Part 3 section 11.2): forgets all assertions.
    public func policyRestart(_ session: Session) throws(TPMError) {
        try execute(.policyRestart, on: [session])
        session.needsAuthValue = false
    }
}
