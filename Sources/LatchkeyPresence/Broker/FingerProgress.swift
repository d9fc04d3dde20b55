/// How it goes with a finger that was asked for.
public enum FingerProgress: String, Sendable, CaseIterable {
    /// Another request comes first.
    case queued
    /// The reader waits for the finger.
    case waiting
    /// The finger could not be read: show it again.
    case retry
    case swipeTooShort = "swipe-too-short"
    case centreFinger = "centre-finger"
    case removeFinger = "remove-finger"
    case matched
    case notMatched = "not-matched"
    /// The finger is no longer asked for.
    case withdrawn
}
