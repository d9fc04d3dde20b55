/// Something that a person has to do at the hardware itself, where no PIN is typed.
public struct PresenceNotice: Hashable, Sendable {
    /// What is to be done.
    public enum Action: Hashable, Sendable {
        /// Prove yourself at the reader's own pad or finger sensor: the token takes no PIN from this program.
        case useReader
        /// Touch the token: it waits for that.
        case touch
    }

    /// What is to be done.
    public var action: Action
    /// What the person is told it is for.
    public var context: PromptContext

    /// A notice of something to do at the hardware.
    public init(_ action: Action, context: PromptContext) {
        self.action = action
        self.context = context
    }
}
