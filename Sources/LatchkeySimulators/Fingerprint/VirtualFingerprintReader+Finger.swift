extension VirtualFingerprintReader {
    /// A finger, by fprintd's name (net.reactivated.Fprint.Device, section Fingerprint names).
    public enum Finger: String, CaseIterable, Sendable {
        /// The left thumb.
        case leftThumb = "left-thumb"
        /// The left index finger.
        case leftIndex = "left-index-finger"
        /// The left middle finger.
        case leftMiddle = "left-middle-finger"
        /// The left ring finger.
        case leftRing = "left-ring-finger"
        /// The left little finger.
        case leftLittle = "left-little-finger"
        /// The right thumb.
        case rightThumb = "right-thumb"
        /// The right index finger.
        case rightIndex = "right-index-finger"
        /// The right middle finger.
        case rightMiddle = "right-middle-finger"
        /// The right ring finger.
        case rightRing = "right-ring-finger"
        /// The right little finger.
        case rightLittle = "right-little-finger"
    }
}
