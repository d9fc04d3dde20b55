extension TPM {
    /// What `Startup` and `Shutdown` do with the state, `TPM_SU` (Part 2 section 6.10).
    public enum StartupType: UInt16, Sendable {
        /// `TPM_SU_CLEAR`: anew.
        case clear = 0
        /// `TPM_SU_STATE`: as it was when it shut down with the same.
        case state = 1
    }

    /// `TPM2_Startup` (Part 3 section 9.3): what firmware does after power-on.
    public func startup(_ type: StartupType) throws(TPMError) {
        var parameters = TPMWriter()
        parameters.write(type.rawValue)
        try execute(.startup, parameters: parameters)
    }

    /// `TPM2_Shutdown` (Part 3 section 9.4): what an operating system does before power-off.
    public func shutdown(_ type: StartupType) throws(TPMError) {
        var parameters = TPMWriter()
        parameters.write(type.rawValue)
        try execute(.shutdown, parameters: parameters)
    }

    /// `TPM2_SelfTest` (Part 3 section 10.2).
    public func selfTest(full: Bool) throws(TPMError) {
        var parameters = TPMWriter()
        parameters.write(UInt8(full ? 1 : 0))
        try execute(.selfTest, parameters: parameters)
    }
}
