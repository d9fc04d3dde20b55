internal import CESAPI
internal import CTSS2

/// Approvals that ask for a ticket, tickets, and sessions that are swapped out.
extension ESAPI {
    static let owner = UInt32(ESYS_TR_RH_OWNER)
    static let password = UInt32(ESYS_TR_PASSWORD)

    /// A timeout (`TPM2B_TIMEOUT`) and the ticket (`TPMT_TK_AUTH`), on the wire.
    struct AuthTicket: Sendable {
        let timeout: [UInt8]
        let ticket: [UInt8]
    }

    func nonceTPM(of session: ESYS_TR) throws -> [UInt8] {
        var nonce: UnsafeMutablePointer<TPM2B_NONCE>?
        try Self.check(Esys_TRSess_GetNonceTPM(context, session, &nonce), "Esys_TRSess_GetNonceTPM")
        return try MarshallingUnit.bytes(Self.take(nonce, "Esys_TRSess_GetNonceTPM"))
    }

    /// PolicySigned with the session's nonce and an expiration.
    func policySigned(
        _ session: ESYS_TR, by key: ESYS_TR, nonceTPM: [UInt8], expiration: Int32,
        policyRef: [UInt8],
        signature: (r: [UInt8], s: [UInt8])
    ) throws -> AuthTicket {
        var nonce = try MarshallingUnit.digest(nonceTPM)
        var cpHash = TPM2B_DIGEST()
        var reference = try MarshallingUnit.digest(policyRef)
        var approval = TPMT_SIGNATURE()
        approval.sigAlg = UInt16(TPM2_ALG_ECDSA)
        approval.signature.ecdsa.hash = UInt16(TPM2_ALG_SHA256)
        approval.signature.ecdsa.signatureR = try MarshallingUnit.number(signature.r)
        approval.signature.ecdsa.signatureS = try MarshallingUnit.number(signature.s)
        var timeout: UnsafeMutablePointer<TPM2B_TIMEOUT>?
        var ticket: UnsafeMutablePointer<TPMT_TK_AUTH>?
        try Self.check(
            Esys_PolicySigned(
                context, key, session, UInt32(ESYS_TR_NONE), UInt32(ESYS_TR_NONE),
                UInt32(ESYS_TR_NONE), &nonce,
                &cpHash, &reference, expiration, &approval, &timeout, &ticket),
            "Esys_PolicySigned")
        return try Self.taken(timeout, ticket, "Esys_PolicySigned")
    }

    /// PolicySecret of an entity, whose authValue `proof` proves.
    ///
    /// - Parameter proof: A session, in which ``setAuthValue(_:of:)`` takes part.
    @discardableResult
    func policySecret(
        _ session: ESYS_TR, of entity: ESYS_TR, by proof: ESYS_TR, expiration: Int32 = 0,
        policyRef: [UInt8]
    ) throws -> AuthTicket {
        var nonce = TPM2B_NONCE()
        if expiration != 0 { nonce = try MarshallingUnit.digest(nonceTPM(of: session)) }
        var cpHash = TPM2B_DIGEST()
        var reference = try MarshallingUnit.digest(policyRef)
        var timeout: UnsafeMutablePointer<TPM2B_TIMEOUT>?
        var ticket: UnsafeMutablePointer<TPMT_TK_AUTH>?
        try Self.check(
            Esys_PolicySecret(
                context, entity, session, proof, UInt32(ESYS_TR_NONE), UInt32(ESYS_TR_NONE), &nonce,
                &cpHash,
                &reference, expiration, &timeout, &ticket),
            "Esys_PolicySecret")
        return try Self.taken(timeout, ticket, "Esys_PolicySecret")
    }

    /// PolicyTicket with a ticket from the entity with this Name.
    func policyTicket(_ session: ESYS_TR, _ given: AuthTicket, by name: [UInt8], policyRef: [UInt8])
        throws
    {
        var timeout = try MarshallingUnit.read(
            given.timeout, into: TPM2B_TIMEOUT(), Tss2_MU_TPM2B_TIMEOUT_Unmarshal)
        var ticket = try MarshallingUnit.read(
            given.ticket, into: TPMT_TK_AUTH(), Tss2_MU_TPMT_TK_AUTH_Unmarshal)
        var cpHash = TPM2B_DIGEST()
        var reference = try MarshallingUnit.digest(policyRef)
        var name = try MarshallingUnit.read(
            MarshallingUnit.sized(name), into: TPM2B_NAME(), Tss2_MU_TPM2B_NAME_Unmarshal)
        try Self.check(
            Esys_PolicyTicket(
                context, session, UInt32(ESYS_TR_NONE), UInt32(ESYS_TR_NONE), UInt32(ESYS_TR_NONE),
                &timeout,
                &cpHash, &reference, &name, &ticket),
            "Esys_PolicyTicket")
    }

    /// ContextSave.
    ///
    /// - Returns: The TPM's `TPMS_CONTEXT`. ESAPI's context contains the TPM's blob after four
    ///   reserved bytes, followed by metadata of ESAPI.
    func contextSave(_ handle: ESYS_TR) throws -> [UInt8] {
        var saved: UnsafeMutablePointer<TPMS_CONTEXT>?
        try Self.check(Esys_ContextSave(context, handle, &saved), "Esys_ContextSave")
        let wrapped = try MarshallingUnit.write(
            Self.take(saved, "Esys_ContextSave"), Tss2_MU_TPMS_CONTEXT_Marshal)
        // sequence, savedHandle, hierarchy; the blob's own length.
        let (head, blob) = (wrapped.prefix(16), wrapped.dropFirst(18))
        let inner = blob.dropFirst(4)
        let count = inner.prefix(2).reduce(0) { $0 << 8 | Int($1) }
        return Array(head + inner.prefix(2 + count))
    }

    private static func taken(
        _ timeout: UnsafeMutablePointer<TPM2B_TIMEOUT>?,
        _ ticket: UnsafeMutablePointer<TPMT_TK_AUTH>?,
        _ function: String
    ) throws -> AuthTicket {
        AuthTicket(
            timeout: try MarshallingUnit.write(
                take(timeout, function), Tss2_MU_TPM2B_TIMEOUT_Marshal),
            ticket: try MarshallingUnit.write(take(ticket, function), Tss2_MU_TPMT_TK_AUTH_Marshal))
    }
}
