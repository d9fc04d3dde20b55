/// Start-up and test commands, TPM 2.0 Part 3 sections 9 and 10.
extension TPM {
    /// The handling of saved state in `Startup` and `Shutdown`, `TPM_SU` (Part 2 section 6.10).
    package enum StartupType: UInt16, Sendable {
        /// `TPM_SU_CLEAR`: resets the state.
        case clear = 0
        /// `TPM_SU_STATE`: saves or restores the state.
        case state = 1
    }

    /// `TPM2_Startup` (section 9.3), which firmware sends after power-on.
    package func startup(_ type: StartupType) throws(TPMError) {
        var parameters = TPMWriter()
        parameters.write(type.rawValue)
        try executeWithoutResult(.startup, parameters: parameters)
    }

    /// `TPM2_Shutdown` (section 9.4), which an operating system sends before power-off.
    package func shutdown(_ type: StartupType) throws(TPMError) {
        var parameters = TPMWriter()
        parameters.write(type.rawValue)
        try executeWithoutResult(.shutdown, parameters: parameters)
    }

    /// `TPM2_SelfTest` (section 10.2).
    package func selfTest(full: Bool) throws(TPMError) {
        var parameters = TPMWriter()
        parameters.write(UInt8(full ? 1 : 0))
        try executeWithoutResult(.selfTest, parameters: parameters)
    }
}
