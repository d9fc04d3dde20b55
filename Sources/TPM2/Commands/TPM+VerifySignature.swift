extension TPM {
    /// `TPM2_VerifySignature` (Part 3 section 20.1).
    ///
    /// - Throws: ``TPMError`` with the response code `signature` when it is not valid.
    public func verifySignature(
        _ signature: TPMSignature, over digest: [UInt8], by key: TPMObject
    ) throws(TPMError) -> Ticket {
        var parameters = TPMWriter()
        parameters.writeSized(digest)
        parameters.write(signature)
        return try execute(.verifySignature, on: [key], parameters: parameters) { (reader, _) throws(TPMError) in
            try reader.read()
        }
    }
}
