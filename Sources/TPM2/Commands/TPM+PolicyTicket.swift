extension TPM {
    /// `TPM2_PolicyTicket` (Part 3 section 23.5): an earlier approval, within its time.
    ///
    /// - Parameters:
    ///   - approval: As it was given; its nonce and expiration don't count here.
    ///   - authority: The Name of who gave it.
    /// - Throws: ``TPMError`` with the response code `expired` when its time is over, `ticket` when it is not this TPM's.
    public func policyTicket(
        _ ticket: ApprovalTicket, for approval: Approval, by authority: TPMName, in session: Session
    ) throws(TPMError) {
        var parameters = TPMWriter()
        parameters.writeSized(ticket.timeout)
        parameters.writeSized(approval.commandHash)
        parameters.writeSized(approval.policyRef)
        parameters.writeSized(authority.bytes)
        parameters.write(ticket.ticket)
        try execute(.policyTicket, on: [session], parameters: parameters)
    }
}
