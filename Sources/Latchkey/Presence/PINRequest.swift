/// A request for a PIN.
public struct PINRequest: Hashable, Sendable {
    /// Which PIN is wanted.
    public enum Purpose: Hashable, Sendable {
        /// The PIN that is set now.
        case current
        /// A new one. An interactive authority asks for it twice and compares.
        case new
    }

    public var purpose: Purpose
    public var context: PromptContext
    /// How many wrong PINs the hardware will still take, where it says so. Show it.
    public var attemptsLeft: Int?

    public init(purpose: Purpose, context: PromptContext, attemptsLeft: Int? = nil) {
        self.purpose = purpose
        self.context = context
        self.attemptsLeft = attemptsLeft
    }
}
