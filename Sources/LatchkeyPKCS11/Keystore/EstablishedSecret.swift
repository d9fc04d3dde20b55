internal import FoundationEssentials
internal import Latchkey

/// A secret that is shared with a token, which has shown that it can find it out.
struct EstablishedSecret: Sendable {
    /// `CKA_ID` of the token's sealing key.
    let keyID: Data
    /// The fingerprint of its public half, 32 bytes.
    let publicKeyHash: Data
    /// What the token finds the secret out from.
    let message: SealedBox.Message
    /// Whether the token wants to be touched to find it out.
    let needsTouch: Bool
    /// 32 bytes.
    let secret: SecretBytes
}
