/// What `Create` returns: an object wrapped by its parent, with proof of its birth.
public struct CreatedObject: Hashable, Sendable {
    /// Its private half, wrapped by its parent.
    public let privatePart: PrivateBlob
    /// Its public half.
    public let publicArea: PublicArea
    /// The circumstances of its birth.
    public let creationData: CreationData
    /// What `CertifyCreation` wants back.
    public let creationHash: [UInt8]
    /// What `CertifyCreation` wants back.
    public let creationTicket: Ticket
}
