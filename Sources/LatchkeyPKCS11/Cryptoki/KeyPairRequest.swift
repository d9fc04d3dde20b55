internal import FoundationEssentials

/// A key pair to be generated on a token: on P-256, or of RSA with 2048 bits where it is to sign so.
struct KeyPairRequest: Hashable, Sendable {
    /// What the key may do; one thing, since a key that signs and derives mixes two proofs.
    enum Use: Hashable, Sendable {
        case sign, derive, signRSA
    }

    /// `CKA_ID` of both halves: 1 byte or up to 64 bytes, as ``ModuleProfile/identifiers`` says.
    var id: Data
    /// `CKA_LABEL` of both halves. Modules with fixed labels ignore it.
    var label: String
    var use: Use
    /// `CKA_PRIVATE`: whether the private half can be used only after login.
    var isPrivate: Bool
    /// `CKA_ALWAYS_AUTHENTICATE`: whether each use is to need a proof of its own.
    var alwaysAuthenticates: Bool
}
