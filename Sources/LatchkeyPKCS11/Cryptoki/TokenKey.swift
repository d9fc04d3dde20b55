internal import FoundationEssentials
internal import Latchkey

/// A P-256 key pair on a token, as it is known within one session.
///
/// `id`, `label`, `publicKey` and `attributes` may be kept. The handle is for the session that it came from only.
struct TokenKey: Sendable {
    /// `CKA_ID` of both halves.
    let id: Data
    /// `CKA_LABEL` of the private half.
    let label: String
    let publicKey: PublicKey
    let attributes: Attributes
    let handle: ObjectHandle

    /// The longest `CKA_ID` that is taken, in bytes.
    static let mostIDBytes = 256

    /// What the token reports of the private half. A flag that it doesn't report is nil.
    struct Attributes: Hashable, Sendable {
        /// `CKA_PRIVATE`: whether it can be seen and used only after login.
        var isPrivate: Bool?
        var isSensitive: Bool?
        var isExtractable: Bool?
        var wasNeverExtractable: Bool?
        var wasAlwaysSensitive: Bool?
        /// `CKA_LOCAL`: whether it was generated on the token.
        var isLocal: Bool?
        /// `CKA_ALWAYS_AUTHENTICATE`: whether each use needs a proof of its own.
        var alwaysAuthenticates: Bool?
        var signs: Bool?
        var derives: Bool?
    }
}
