/// What came of asking for a finger, or of offering a finger and a PIN together.
package enum PresenceAnswer: Sendable {
    /// The PIN came first.
    case pin(PIN)
    /// The finger came first, and was the user's.
    case approved(PresenceApproval)
    /// A finger was shown that is not the user's, and no PIN was given.
    case notRecognised
    /// The person said no, or showed nothing in time. The text says which.
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
