/// What came of asking for a finger. That it is another finger, or none, is an outcome and no accident.
package enum ApprovalAnswer: Hashable, Sendable {
    /// The finger was the user's. The hardware checks the word.
    case approved(PresenceApproval)
    /// A finger was shown that is not the user's.
    case notRecognised
    /// The person said no, or showed no finger in time. The text says which.
    case declined(String)
}
