/// Something that the presence broker tells the person whose finger it waits for.
public struct PresencePrompt: Hashable, Sendable {
    public let progress: FingerProgress
    /// The service's own words about who asks, for what.
    public let text: String

    public init(progress: FingerProgress, text: String) {
        self.progress = progress
        self.text = text
    }
}
