extension VirtualFingerprintReader {
    /// Something that a person, or fate, does at the sensor.
    public enum Touch: Hashable, Sendable {
        /// A finger is swiped that looks like this: a word without blanks.
        case finger(String)
        /// A swipe that can't be read (`FP_DEVICE_RETRY_GENERAL`). The verification goes on.
        case unreadable
        /// A swipe that was too short (`FP_DEVICE_RETRY_TOO_SHORT`). The verification goes on.
        case tooShort
        /// A finger that was not centred (`FP_DEVICE_RETRY_CENTER_FINGER`). The verification goes on.
        case offCentre
        /// The sensor fails (`FP_DEVICE_ERROR_GENERAL`): the verification ends.
        case failure
        /// The sensor is pulled out.
        case unplugged

        /// The virtual sensor's command (libfprint, drivers/virtual-device.c).
        var command: String {
            switch self {
            case .finger(let image): "SCAN \(image)"
            case .unreadable: "RETRY 0"
            case .tooShort: "RETRY 1"
            case .offCentre: "RETRY 2"
            case .failure: "ERROR 0"
            case .unplugged: "UNPLUG"
            }
        }
    }
}
