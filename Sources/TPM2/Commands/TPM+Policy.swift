/// Enhanced authorization commands, TPM 2.0 Part 3 section 23.
extension TPM {
    /// `TPM2_PolicySigned` (section 23.3).
    ///
    /// - Parameter signature: A signature over ``Approval/digest`` by `authority`.
    @discardableResult
    package func policySigned(
        _ approval: Approval, signature: TPMSignature, by authority: TPMObject, in session: Session
    ) throws(TPMError) -> ApprovalTicket {
        var parameters = approval.parameters
        parameters.write(signature)
        return try execute(.policySigned, on: [authority, session], parameters: parameters) {
            (reader, _) throws(TPMError) in try reader.read()
        }
    }

    /// `TPM2_PolicySecret` (section 23.4).
    @discardableResult
    package func policySecret(
        _ approval: Approval, of entity: any TPMEntity, authorizedBy authorization: Authorization, in session: Session
    ) throws(TPMError) -> ApprovalTicket {
        try execute(
            .policySecret, on: [entity, session], authorizedBy: [authorization], parameters: approval.parameters
        ) { (reader, _) throws(TPMError) in try reader.read() }
    }

    /// `TPM2_PolicyTicket` (section 23.5): uses an earlier approval before it expires.
    ///
    /// - Parameters:
    ///   - approval: The earlier approval. Its nonce and expiration are not used.
    ///   - authority: The Name of the key or entity that gave the approval.
    /// - Throws: ``TPMError`` with the response code `expired` after the time limit, or `ticket` for a ticket of another TPM.
    package func policyTicket(
        _ ticket: ApprovalTicket, for approval: Approval, by authority: TPMName, in session: Session
    ) throws(TPMError) {
        var parameters = TPMWriter()
        parameters.writeSized(ticket.timeout)
        parameters.writeSized(approval.commandHash)
        parameters.writeSized(approval.policyRef)
        parameters.writeSized(authority.bytes)
        parameters.write(ticket.ticket)
        try executeWithoutResult(.policyTicket, on: [session], parameters: parameters)
    }

    /// `TPM2_PolicyOR` (section 23.6) with 2 to 8 branches. The session has satisfied one of them.
    public func policyOR(_ branches: [PolicyDigest], in session: Session) throws(TPMError) {
        var parameters = TPMWriter()
        parameters.write(UInt32(branches.count))
        for branch in branches { parameters.writeSized(branch.bytes) }
        try executeWithoutResult(.policyOR, on: [session], parameters: parameters)
    }

    /// `TPM_EO_EQ` (Part 2 section 6.13).
    static let equalOperation: UInt16 = 0

    /// `TPM2_PolicyNV` (section 23.9): requires that the content of the index starts with these bytes.
    ///
    /// - Throws: ``TPMError`` with the response code `policy` when the content is different.
    package func policyNVEquals(
        _ operand: [UInt8], in index: NVIndex, authorizedBy authorization: Authorization = .emptyPassword,
        session: Session
    ) throws(TPMError) {
        var parameters = TPMWriter()
        parameters.writeSized(operand)
        parameters.write(UInt16(0))
        parameters.write(Self.equalOperation)
        try executeWithoutResult(
            .policyNV, on: [index, index, session], authorizedBy: [authorization], parameters: parameters)
    }

    /// `TPM2_PolicyCommandCode` (section 23.11).
    public func policyCommandCode(_ code: TPMCommandCode, in session: Session) throws(TPMError) {
        var parameters = TPMWriter()
        parameters.write(code.rawValue)
        try executeWithoutResult(.policyCommandCode, on: [session], parameters: parameters)
    }

    /// `TPM2_PolicyAuthValue` (section 23.17).
    public func policyAuthValue(_ session: Session) throws(TPMError) {
        try executeWithoutResult(.policyAuthValue, on: [session])
        session.needsAuthValue = true
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
