public import Latchkey

/// A set-up request that was verified: the sender has the private half of this key.
///
/// It proves nothing about a user. The session in which it arrived does that.
public struct SetupProof: Hashable, Sendable {
    public let kid: KeyID
    public let key: DevicePublicKey
    public let info: DeviceInfo
}
