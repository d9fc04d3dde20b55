extension TPM {
    /// `TPM2_ReadClock` (Part 3 section 29.1).
    public func readClock() throws(TPMError) -> TimeInfo {
        try execute(.readClock) { (reader, _) throws(TPMError) in try reader.read() }
    }
}
