extension TPM {
    /// `TPM2_PolicySecret` (Part 3 section 23.4).
    @discardableResult
    public func policySecret(
        _ approval: Approval, of entity: any TPMEntity, authorizedBy authorization: Authorization, in session: Session
    ) throws(TPMError) -> ApprovalTicket {
        try execute(
            .policySecret, on: [entity, session], authorizedBy: [authorization], parameters: approval.parameters
        ) { (reader, _) throws(TPMError) in try reader.read() }
    }
}
