/// What `PolicySigned` and `PolicySecret` return: a ticket that stands for the approval until it expires. Empty
/// unless the expiration was negative.
public struct ApprovalTicket: Hashable, Sendable {
    public let timeout: [UInt8]
    public let ticket: Ticket
}

extension ApprovalTicket: TPMUnmarshallable {
    public init(from reader: inout TPMReader) throws(TPMError) {
        timeout = try reader.readSized(maximum: 64)
        ticket = try reader.read()
    }
}
