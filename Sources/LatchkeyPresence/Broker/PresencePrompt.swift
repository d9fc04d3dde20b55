/// Something that the presence broker tells the person whose finger it waits for.
public struct PresencePrompt: Hashable, Sendable {
    /// How far it is.
    public let progress: FingerProgress
    /// The service's own words about who asks, for what.
    public let text: String

    /// A prompt as the broker sends it.
    public init(progress: FingerProgress, text: String) {
        self.progress = progress
        self.text = text
    }
}
