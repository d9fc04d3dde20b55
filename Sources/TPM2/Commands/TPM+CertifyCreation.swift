extension TPM {
    /// `TPM2_CertifyCreation` (Part 3 section 18.3): says that this TPM made `object`. Needs no authorization of the
    /// object.
    ///
    /// - Parameters:
    ///   - signer: A restricted signing key with a scheme of its own.
    ///   - challenge: The verifier's, at most 32 bytes here.
    /// - Returns: The bytes of the `TPMS_ATTEST` that are signed, what they say, and the signature.
    public func certifyCreation(
        of object: TPMObject, creationHash: [UInt8], creationTicket: Ticket, challenge: [UInt8], by signer: TPMObject,
        authorizedBy authorization: Authorization = .emptyPassword
    ) throws(TPMError) -> (bytes: [UInt8], statement: Attest, signature: TPMSignature) {
        var parameters = TPMWriter()
        parameters.writeSized(challenge)
        parameters.writeSized(creationHash)
        parameters.write(Scheme.null)
        parameters.write(creationTicket)
        return try execute(
            .certifyCreation, on: [signer, object], authorizedBy: [authorization], parameters: parameters
        ) { (reader, _) throws(TPMError) in
            let bytes = try reader.readSized(maximum: 1024)
            return (bytes, try Attest(unmarshalling: bytes), try reader.read())
        }
    }
}
