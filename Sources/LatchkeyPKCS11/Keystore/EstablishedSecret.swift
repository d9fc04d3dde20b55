internal import Latchkey

/// A secret that is shared with a token, and the header of the box for which it is.
struct EstablishedSecret: Sendable {
    let header: SealedBox.Header
    /// 32 bytes.
    let secret: SecretBytes
}
