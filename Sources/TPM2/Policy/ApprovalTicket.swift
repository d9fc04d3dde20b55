/// What `PolicySigned` and `PolicySecret` return: a ticket that stands for the approval until it expires. Empty
/// unless the expiration was negative.
public struct ApprovalTicket: Hashable, Sendable {
    /// Until when it holds, as the TPM encodes it.
    public let timeout: [UInt8]
    /// The TPM's own proof that it checked the approval.
    public let ticket: Ticket
}

extension ApprovalTicket: TPMUnmarshallable {
    public init(from reader: inout TPMReader) throws(TPMError) {
        timeout = try reader.readSized(maximum: 64)
        ticket = try reader.read()
    }
}
