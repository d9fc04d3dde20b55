/// What `Create` returns: an object wrapped by its parent, with proof of its birth.
public struct CreatedObject: Hashable, Sendable {
    public let privatePart: PrivateBlob
    public let publicArea: PublicArea
    public let creationData: CreationData
    /// What `CertifyCreation` wants back.
    public let creationHash: [UInt8]
    /// What `CertifyCreation` wants back.
    public let creationTicket: Ticket
}
