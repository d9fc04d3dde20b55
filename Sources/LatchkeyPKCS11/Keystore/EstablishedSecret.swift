internal import Latchkey

/// A secret that is shared with a token, and the header of the box for which it is.
struct EstablishedSecret: Sendable {
    let header: SealedBox.Header
    /// An x coordinate of 32 bytes, or a signature of 256.
    let secret: SecretBytes
}
