internal import Latchkey

/// When a request may prompt. A page can begin requests in a row, and end them; a program can end
/// the requests of others. A state machine over given times.
struct PromptLimit: Sendable {
    /// The time between the end of a request that prompted and the next prompt.
    static let pauseTime = QuietTimes<String>.pause
    /// The time after the end of a prompt in which another program gets no prompt for its site.
    static let suspicionTime: Duration = .seconds(10)
    /// The number of prompts in a row that the client or the time limit ended, after which there is
    /// no quiet time. A page must be able to begin again.
    private static let toleratedEnds = 5
    /// The longest quiet time of all sites after prompts that the user did not refuse. A page can end
    /// its own ones to keep others from prompting.
    private static let longestWithoutRefusal: Duration = .seconds(30)
    /// The number of refusals in a row after which only their sites have a quiet time.
    private static let toleratedRefusals = 1
    /// How the user has answered a prompt.
    enum Answer {
        case accepted, refused
    }

    private struct EndedPrompt {
        let time: Duration
        let openers: DeviceOpeners?

        /// Whether one program alone had opened the device, and has it alone now.
        func isOnly(_ now: DeviceOpeners?) -> Bool {
            guard let now, now.isOne else { return false }
            return openers?.processes == now.processes
        }
    }

    private enum AllSites { case all }

    /// The quiet time of all sites together: a page can choose among many names, and a creation
    /// takes any.
    private var ofAll = QuietTimes<AllSites>()
    private var ofSites = QuietTimes<String>()
    private var endedPrompts: [String: EndedPrompt] = [:]
    private var pauseEnd: Duration?

    /// When the next prompt may be shown; nil for now.
    func pause(at now: Duration) -> Duration? { pauseEnd.flatMap { now < $0 ? $0 : nil } }

    /// The status for a request that gets no prompt, or nil.
    ///
    /// - After too many prompts for its site, or for another program's request that was ended:
    ///   `operationDenied`. All programs read the packets of the device, so one can end another
    ///   one's request and take the consent in an identical prompt.
    /// - After too many prompts of all: `userActionTimeout`. The request is not their cause, and
    ///   browsers continue with the user's other devices.
    ///
    /// - Parameters:
    ///   - site: nil for requests without a site.
    ///   - openers: The programs that have opened the device now.
    mutating func refusal(
        of site: String?, to openers: DeviceOpeners?, at now: Duration
    ) -> CTAPStatus? {
        endedPrompts = endedPrompts.filter { now - $0.value.time < Self.suspicionTime }
        if let site {
            if ofSites.remaining(for: site, at: now) != nil { return .operationDenied }
            if let earlier = endedPrompts[site], !earlier.isOnly(openers) {
                return .operationDenied
            }
        }
        return ofAll.remaining(for: .all, at: now) == nil ? nil : .userActionTimeout
    }

    /// The user has answered a prompt.
    mutating func count(_ answer: Answer, to site: String?, at now: Duration) {
        switch answer {
        case .accepted:
            ofAll.accept(.all)
            if let site { ofSites.accept(site) }
        case .refused:
            ofAll.refuse(.all, tolerating: Self.toleratedRefusals, at: now)
            if let site { ofSites.refuse(site, at: now) }
        }
    }

    /// A request that prompted has ended.
    mutating func end(at now: Duration) { pauseEnd = now + Self.pauseTime }

    /// A prompt has ended without an answer of the user.
    ///
    /// - Parameters:
    ///   - openers: All programs that had opened the device meanwhile.
    ///   - isSuspicious: Whether another program can have ended it.
    mutating func abandon(
        _ site: String?, of openers: DeviceOpeners?, isSuspicious: Bool, at now: Duration
    ) {
        ofAll.refuse(
            .all, tolerating: Self.toleratedEnds, upTo: Self.longestWithoutRefusal, at: now)
        guard let site else { return }
        ofSites.refuse(site, tolerating: Self.toleratedEnds, at: now)
        if isSuspicious { endedPrompts[site] = EndedPrompt(time: now, openers: openers) }
    }

    /// A request stays unanswered without a prompt. It counts as a prompt of its site, and disturbs
    /// no other one.
    mutating func hold(_ site: String, at now: Duration) {
        ofSites.refuse(site, tolerating: Self.toleratedEnds, at: now)
    }
}
