import LatchkeyPresence

/// What a person at the tool is told about a finger that is asked for.
enum FingerNotice {
    /// - Parameter prompt: The service's words about who asks, for what.
    static func show(_ progress: FingerProgress, _ prompt: String, on console: Console) {
        switch progress {
        case .queued: console.say("Another program has the fingerprint reader; yours is next.")
        case .waiting: console.say("\(prompt) Touch the fingerprint reader.")
        case .retry: console.say("The finger could not be read. Touch the reader again.")
        case .swipeTooShort: console.say("That was too short. Swipe again.")
        case .centreFinger: console.say("Put the finger in the middle of the reader, and again.")
        case .removeFinger: console.say("Take the finger off the reader, and touch it again.")
        case .notMatched: console.say("That finger is not one of yours.")
        case .matched, .withdrawn: break
        }
    }
}
