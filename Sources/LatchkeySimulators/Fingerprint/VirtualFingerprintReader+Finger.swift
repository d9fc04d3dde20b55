extension VirtualFingerprintReader {
    /// A finger, by fprintd's name (net.reactivated.Fprint.Device, section Fingerprint names).
    public enum Finger: String, CaseIterable, Sendable {
        case leftThumb = "left-thumb"
        case leftIndex = "left-index-finger"
        case leftMiddle = "left-middle-finger"
        case leftRing = "left-ring-finger"
        case leftLittle = "left-little-finger"
        case rightThumb = "right-thumb"
        case rightIndex = "right-index-finger"
        case rightMiddle = "right-middle-finger"
        case rightRing = "right-ring-finger"
        case rightLittle = "right-little-finger"
    }
}
