internal import FoundationEssentials
internal import Latchkey

/// What one call has from its caller.
struct FlowContext: Sendable {
    /// As a verb phrase, for errors and prompts.
    let operation: String
    let metadata: [String: JSONValue]?
    let options: StartAuthSessionOptions
    /// Whoever is asked, once for the whole call.
    let consent: OnePINConsent
    let prompt: PromptContext
}
