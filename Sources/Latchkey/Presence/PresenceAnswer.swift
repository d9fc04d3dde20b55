/// What came of offering a finger and a PIN together.
public enum PresenceAnswer: Sendable {
    case pin(PIN)
    case approved(PresenceApproval)
    /// A finger was shown that is not the user's, and no PIN was given.
    case notRecognised
    case declined(String)
}
