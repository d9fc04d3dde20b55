public import Latchkey

/// A set-up request that was verified: the sender has the private half of this key.
///
/// It proves nothing about a user. The session in which it arrived does that.
public struct SetupProof: Hashable, Sendable {
    /// The name of the key.
    public let kid: KeyID
    /// The key that the sender has.
    public let key: DevicePublicKey
    /// What the device says of itself.
    public let info: DeviceInfo
}
