extension TPM {
    /// `TPM2_PolicySigned` (Part 3 section 23.3).
    ///
    /// - Parameters:
    ///   - signature: Over ``Approval/digest`` by `authority`.
    @discardableResult
    public func policySigned(
        _ approval: Approval, signature: TPMSignature, by authority: TPMObject, in session: Session
    ) throws(TPMError) -> ApprovalTicket {
        var parameters = approval.parameters
        parameters.write(signature)
        return try execute(.policySigned, on: [authority, session], parameters: parameters) {
            (reader, _) throws(TPMError) in try reader.read()
        }
    }
}
