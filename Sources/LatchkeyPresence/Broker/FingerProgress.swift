/// How it goes with a finger that was asked for.
public enum FingerProgress: String, Sendable, CaseIterable {
    /// Another request comes first.
    case queued
    /// The reader waits for the finger.
    case waiting
    /// The finger could not be read: show it again.
    case retry
    /// The swipe was too short.
    case swipeTooShort = "swipe-too-short"
    /// The finger was not in the middle of the sensor.
    case centreFinger = "centre-finger"
    /// The finger has to come off and back.
    case removeFinger = "remove-finger"
    /// The finger is the user's.
    case matched
    /// The finger is not the user's.
    case notMatched = "not-matched"
    /// The finger is no longer asked for.
    case withdrawn
}
