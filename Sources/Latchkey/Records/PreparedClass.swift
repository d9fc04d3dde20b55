/// A new protection class: sealed by the hardware and opened once, but not stored yet. It is stored together with the
/// records that it protects, so that a crash leaves both or neither.
package struct PreparedClass: Sendable {
    package let protection: ProtectionClass
    let sealed: SealedSecret
    package let session: ClassSession
    /// For one that the hardware can take back.
    let announcement: Announcement?
}
