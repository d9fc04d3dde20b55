/// A private key on a token, of whatever type.
protocol PrivateHalf {
    var attributes: TokenKey.Attributes { get }
    var handle: ObjectHandle { get }
    /// The attributes (`CK_ATTRIBUTE_TYPE`) that nobody may be shown.
    var secrets: [UInt] { get }
}
