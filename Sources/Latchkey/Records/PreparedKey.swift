/// A key that was made and is not stored yet. Keep this value until the key is stored: other programs may revoke the key
/// after that.
public struct PreparedKey: Sendable {
    /// The key.
    public let key: HardwareKey
    /// Why the key is not revocable, where that was ``Revocability/preferred``.
    public let revocabilityRefusal: KeystoreError?
    let announcement: Announcement?

    init(key: HardwareKey, revocabilityRefusal: KeystoreError? = nil, announcement: Announcement? = nil) {
        self.key = key
        self.revocabilityRefusal = revocabilityRefusal
        self.announcement = announcement
    }
}
