package import FoundationEssentials
package import Latchkey

/// A P-256 key that is on a token, whoever made it.
package struct TokenKeyListing: Hashable, Sendable {
    /// A URI by which the key can be adopted: token, module and `id`.
    package let uri: String
    /// `CKA_ID`, 1 to 64 bytes.
    package let id: Data
    /// `CKA_LABEL`.
    package let label: String
    /// Its public half.
    package let publicKey: PublicKey
    /// Whether it can be used only after a login; nil where the token does not say.
    package let needsLogin: Bool?
    /// Whether each use needs a proof of its own; nil where the token does not say.
    package let alwaysAuthenticates: Bool?
    /// Whether it was generated on the token; nil where the token does not say.
    package let wasGeneratedHere: Bool?
}
