extension TPM {
    /// `TPM2_GetRandom` (Part 3 section 16.1).
    ///
    /// - Parameter count: In bytes. A TPM returns at most as many as its largest digest has.
    public func getRandom(_ count: UInt16) throws(TPMError) -> [UInt8] {
        var parameters = TPMWriter()
        parameters.write(count)
        return try execute(.getRandom, parameters: parameters) { (reader, _) throws(TPMError) in
            try reader.readSized(maximum: Int(count))
        }
    }
}
