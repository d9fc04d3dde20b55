/// An `enrol` assertion that was verified: the sender has the private half of this key.
///
/// It proves nothing about a user. The session in which it arrived does that.
public struct LockerEnrolmentProof: Hashable, Sendable {
    /// The key that the sender has.
    public let deviceKey: LockerKey
    /// What the device says of itself.
    public let info: DeviceInfo
}
