/// Enhanced authorization commands, TPM 2.0 Part 3 section 23.
extension TPM {
    /// `TPM2_PolicySigned` (section 23.3).
    ///
    /// - Parameter signature: A signature over ``Approval/digest`` by `authority`.
    @discardableResult
    package func policySigned(
        _ approval: Approval, signature: TPMSignature, by authority: TPMObject, in session: Session
    ) throws(TPMError) -> ApprovalTicket {
        try result(
            of: .policySigned, on: [authority, session], parameters: TPMWriter(approval, signature))
    }

    /// `TPM2_PolicySecret` (section 23.4).
    @discardableResult
    package func policySecret(
        _ approval: Approval, of entity: any TPMEntity, authorizedBy authorization: Authorization,
        in session: Session
    ) throws(TPMError) -> ApprovalTicket {
        try result(
            of: .policySecret, on: [entity, session], authorizedBy: [authorization],
            parameters: TPMWriter(approval))
    }

    /// `TPM2_PolicyTicket` (section 23.5): uses an earlier approval before it expires.
    ///
    /// - Parameters:
    ///   - approval: The earlier approval. Its nonce and expiration are not used.
    ///   - authority: The Name of the key or entity that gave the approval.
    /// - Throws: ``TPMError`` with the response code `expired` after the time limit, or `ticket`
    ///   for a ticket of another TPM.
    package func policyTicket(
        _ ticket: ApprovalTicket, for approval: Approval, by authority: TPMName, in session: Session
    ) throws(TPMError) {
        try executeWithoutResult(
            .policyTicket, on: [session],
            parameters: TPMWriter(
                TPM2B(ticket.timeout), TPM2B(approval.commandHash), TPM2B(approval.policyRef),
                authority,
                ticket.ticket))
    }

    /// `TPM2_PolicyOR` (section 23.6) with 2 to 8 branches. The session has satisfied one of them.
    public func policyOR(_ branches: [PolicyDigest], in session: Session) throws(TPMError) {
        var parameters = TPMWriter(UInt32(branches.count))
        for branch in branches { parameters.writeSized(branch.bytes) }
        try executeWithoutResult(.policyOR, on: [session], parameters: parameters)
    }

    /// `TPM_EO_EQ` (Part 2 section 6.13).
    static let equalOperation: UInt16 = 0

    /// `TPM2_PolicyNV` (section 23.9): requires that the content of the index starts with these
    /// bytes.
    ///
    /// - Throws: ``TPMError`` with the response code `policy` when the content is different.
    package func policyNVEquals(
        _ operand: [UInt8], in index: NVIndex,
        authorizedBy authorization: Authorization = .emptyPassword,
        session: Session
    ) throws(TPMError) {
        try executeWithoutResult(
            .policyNV, on: [index, index, session], authorizedBy: [authorization],
            parameters: TPMWriter(TPM2B(operand), UInt16(0), Self.equalOperation))
    }

    /// `TPM2_PolicyCommandCode` (section 23.11).
    public func policyCommandCode(_ code: TPMCommandCode, in session: Session) throws(TPMError) {
        try executeWithoutResult(.policyCommandCode, on: [session], parameters: TPMWriter(code))
    }

    /// `TPM2_PolicyAuthValue` (section 23.17).
    public func policyAuthValue(_ session: Session) throws(TPMError) {
        try executeWithoutResult(.policyAuthValue, on: [session])
        session.state.needsAuthValue = true
    }

    /// `TPM2_PolicyGetDigest` (section 23.19).
    ///
    /// - Returns: 32 bytes.
    package func policyGetDigest(_ session: Session) throws(TPMError) -> [UInt8] {
        try execute(.policyGetDigest, on: [session]) { (reader, _) throws(TPMError) in
            try reader.readSized(maximum: 64)
        }
    }
}
