/// What came of asking for a finger, or of offering a finger and a PIN together.
public enum PresenceAnswer: Sendable {
    case pin(PIN)
    case approved(PresenceApproval)
    /// A finger was shown that is not the user's, and no PIN was given.
    case notRecognised
    case declined(String)

    package init(_ answer: ApprovalAnswer) {
        self =
            switch answer {
            case .approved(let approval): .approved(approval)
            case .notRecognised: .notRecognised
            case .declined(let why): .declined(why)
            }
    }
}
