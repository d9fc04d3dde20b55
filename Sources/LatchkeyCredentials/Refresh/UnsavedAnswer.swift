internal import Latchkey

/// An answer that the store did not take, sealed: a lock shuts it like everything that is stored.
struct UnsavedAnswer: Sendable {
    /// A ``RefreshAnswer`` in an envelope of the credential's class.
    let sealed: SecretBytes
    /// The generation of the token that was refreshed. It counts for no other.
    let tokenGeneration: Int
}
