// Enhanced authorization commands, Part 3 section 23. Each takes its session from
// `TPM.execute(_:in:authorizedBy:)`.

/// `TPM2_PolicySigned` (section 23.3).
package struct PolicySigned: PolicyAssertion {
    package typealias Response = ApprovalTicket
    package static let code = TPMCommandCode.policySigned
    package let entities: [NamedHandle]
    private let approval: Approval
    private let signature: TPMSignature

    /// - Parameter signature: A signature over ``Approval/digest`` by `authority`.
    package init(_ approval: Approval, signature: TPMSignature, by authority: TPMObject) {
        entities = NamedHandle.area(authority)
        self.approval = approval
        self.signature = signature
    }

    package func marshal(into writer: inout TPMWriter) { writer.write(approval, signature) }

    package func extend(_ policy: PolicyDigest) -> PolicyDigest {
        policy.signed(by: entities[0].name, policyRef: approval.policyRef)
    }
}

/// `TPM2_PolicySecret` (section 23.4).
package struct PolicySecret: PolicyAssertion {
    package typealias Response = ApprovalTicket
    package static let code = TPMCommandCode.policySecret
    package static let authorizedHandles = 1
    package let entities: [NamedHandle]
    private let approval: Approval

    package init(_ approval: Approval, of entity: any TPMEntity) {
        entities = NamedHandle.area(entity)
        self.approval = approval
    }

    package func marshal(into writer: inout TPMWriter) { writer.write(approval) }

    package func extend(_ policy: PolicyDigest) -> PolicyDigest {
        policy.secret(of: entities[0].name, policyRef: approval.policyRef)
    }
}

/// `TPM2_PolicyTicket` (section 23.5): uses an earlier approval before it expires. The response
/// code is `expired` after the time limit, and `ticket` for a ticket of another TPM.
package struct PolicyTicket: TPMCommand {
    package static let code = TPMCommandCode.policyTicket
    private let ticket: ApprovalTicket
    private let approval: Approval
    private let authority: TPMName

    /// - Parameters:
    ///   - approval: The earlier approval. Its nonce and expiration are not used.
    ///   - authority: The Name of the key or entity that gave the approval.
    package init(_ ticket: ApprovalTicket, for approval: Approval, by authority: TPMName) {
        self.ticket = ticket
        self.approval = approval
        self.authority = authority
    }

    package func marshal(into writer: inout TPMWriter) {
        writer.write(
            TPM2B(ticket.timeout), TPM2B(approval.commandHash), TPM2B(approval.policyRef),
            authority, ticket.ticket)
    }
}

/// `TPM2_PolicyOR` (section 23.6) with 2 to 8 branches. The session has satisfied one of them.
package struct PolicyOR: TPMCommand {
    package static let code = TPMCommandCode.policyOR
    private let branches: [PolicyDigest]

    package init(_ branches: [PolicyDigest]) { self.branches = branches }

    package func marshal(into writer: inout TPMWriter) {
        writer.write(UInt32(branches.count))
        for branch in branches { writer.writeSized(branch.bytes) }
    }
}

/// `TPM2_PolicyNV` (section 23.9): requires that the content of an index starts with these bytes.
/// The response code is `policy` when the content is different.
package struct PolicyNV: PolicyAssertion {
    package static let code = TPMCommandCode.policyNV
    package static let authorizedHandles = 1
    package let entities: [NamedHandle]
    private let operand: [UInt8]

    /// `TPM_EO_EQ` (Part 2 section 6.13).
    static let equal: UInt16 = 0

    package init(equals operand: [UInt8], in index: NVIndex) {
        entities = NamedHandle.area(index, index)
        self.operand = operand
    }

    package func marshal(into writer: inout TPMWriter) {
        writer.write(TPM2B(operand), UInt16(0), Self.equal)
    }

    package func extend(_ policy: PolicyDigest) -> PolicyDigest {
        policy.nvEquals(operand, in: entities[0].name)
    }
}

/// `TPM2_PolicyCommandCode` (section 23.11).
package struct PolicyCommandCode: PolicyAssertion {
    package static let code = TPMCommandCode.policyCommandCode
    private let permitted: TPMCommandCode

    package init(_ permitted: TPMCommandCode) { self.permitted = permitted }

    package func marshal(into writer: inout TPMWriter) { writer.write(permitted) }

    package func extend(_ policy: PolicyDigest) -> PolicyDigest { policy.commandCode(permitted) }
}

/// `TPM2_PolicyAuthValue` (section 23.17).
package struct PolicyAuthValue: PolicyAssertion {
    package static let code = TPMCommandCode.policyAuthValue

    package init() {}

    package func completed(in session: Session) { session.state.needsAuthValue = true }

    package func extend(_ policy: PolicyDigest) -> PolicyDigest { policy.authValue() }
}

/// `TPM2_PolicyGetDigest` (section 23.19).
package struct PolicyGetDigest: TPMCommand {
    package static let code = TPMCommandCode.policyGetDigest

    package init() {}

    package func response(from reader: inout TPMReader) throws(TPMError) -> [UInt8] {
        try reader.readSized(maximum: 64)
    }
}

extension PolicyDigest {
    /// The digest of a session that executed the assertions.
    package init(_ assertions: [any PolicyAssertion]) {
        self = assertions.reduce(PolicyDigest()) { $1.extend($0) }
    }
}
