/// What a person is told when asked for a PIN or a finger.
public struct PromptContext: Hashable, Sendable {
    /// Why, as the end of "Latchkey asks for your PIN to …": `log in to example.com`.
    public var reason: String
    /// The container for which it is.
    public var container: String

    /// What a person is told. Untrusted text belongs in neither: both are shown.
    public init(reason: String, container: String = "default") {
        self.reason = reason
        self.container = container
    }
}
