/// A key that was made and is not stored yet. Keep this value until the key is stored: what the hardware holds of it may be
/// given up by other programs after that.
public struct PreparedKey: Sendable {
    /// The key.
    public let key: HardwareKey
    let announcement: Announcement?
}
