public import FoundationEssentials
public import Latchkey

/// A P-256 key that is on a token, whoever made it.
public struct TokenKeyListing: Hashable, Sendable {
    /// A URI by which the key can be adopted: token, module and `id`.
    public let uri: String
    /// `CKA_ID`, 1 to 64 bytes.
    public let id: Data
    /// `CKA_LABEL`.
    public let label: String
    /// Its public half.
    public let publicKey: PublicKey
    /// Whether it can be used only after a login; nil where the token does not say.
    public let needsLogin: Bool?
    /// Whether each use needs a proof of its own; nil where the token does not say.
    public let alwaysAuthenticates: Bool?
    /// Whether it was generated on the token; nil where the token does not say.
    public let wasGeneratedHere: Bool?
}
