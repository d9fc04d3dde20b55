import LatchkeyPresence

/// The conversation with fprintd that verifies one finger of a user: a state machine without input
/// and output.
///
/// A match counts only if it is complete, comes from the fprintd whose reader was claimed, and
/// comes after that fprintd has confirmed this verification. All other messages are outdated or
/// come from other programs.
struct VerificationDialogue {
    enum Input: Hashable, Sendable {
        case claimed(BusOutcome)
        case started(BusOutcome)
        /// The signal `VerifyStatus`.
        case status(String, isDone: Bool, sender: String)
        /// The fprintd whose reader was claimed has left the bus, or another program owns its name.
        case vanished
        case stopped
        case released
        case cancelled
        case late
    }

    /// Whether a call succeeded, and if not, the error's name and text.
    enum BusOutcome: Hashable, Sendable {
        case done
        case refused(String, String)
    }

    enum Action: Hashable, Sendable {
        case claim
        case startVerification
        case stopVerification
        case release
        case report(FingerProgress)
        case finish(VerificationOutcome)
    }

    private enum Phase {
        case idle
        case claiming
        case starting
        case verifying
        case stopping(VerificationOutcome)
        case releasing(VerificationOutcome)
        case over
    }

    private let fprintd: String
    private var phase = Phase.idle
    /// An outcome that arrived during a call that cannot be cancelled.
    private var interruption: VerificationOutcome?

    /// - Parameter fprintd: The unique name of fprintd on the bus.
    init(fprintd: String) {
        self.fprintd = fprintd
    }

    mutating func begin() -> [Action] {
        phase = .claiming
        return [.claim]
    }

    mutating func receive(_ input: Input) -> [Action] {
        switch (phase, input) {
        case (.over, _), (.idle, _): return []
        case (_, .vanished): return vanished()
        case (.claiming, .claimed(.done)):
            if let interruption { return release(interruption) }
            phase = .starting
            return [.startVerification]
        case (.claiming, .claimed(.refused(let name, let text))):
            let outcome = interruption ?? Self.meaning(of: name, text)
            // Unless fprintd itself refused, the reader may be claimed.
            return name.hasPrefix(Self.fprintdErrors) ? end(outcome) : release(outcome)
        case (.starting, .started(.done)):
            if let interruption { return stop(interruption) }
            phase = .verifying
            return [.report(.waiting)]
        case (.starting, .started(.refused(let name, let text))):
            return release(interruption ?? Self.meaning(of: name, text))
        case (.verifying, .status(let status, let isDone, let sender)):
            return sender == fprintd ? seen(status, isDone) : []
        case (.claiming, .cancelled), (.starting, .cancelled):
            interruption = interruption ?? .cancelled
            return []
        case (.claiming, .late), (.starting, .late):
            interruption = interruption ?? .late
            return []
        case (.verifying, .cancelled): return [.report(.withdrawn)] + stop(.cancelled)
        case (.verifying, .late): return [.report(.withdrawn)] + stop(.late)
        case (.stopping(let outcome), .stopped): return release(outcome)
        case (.releasing(let outcome), .released): return end(outcome)
        default: return []
        }
    }

    /// fprintd has ended: no result counts any more. The reader is still released, because an
    /// fprintd that lost its name may be running. If it has ended, the bus answers immediately.
    private mutating func vanished() -> [Action] {
        let outcome = VerificationOutcome.failed("fprintd ended")
        switch phase {
        case .claiming, .starting:
            interruption = outcome
            return []
        case .verifying: return stop(outcome)
        // A finger that did not match counts in any case.
        case .stopping(.notMatched), .releasing(.notMatched): return []
        case .stopping:
            phase = .stopping(outcome)
            return []
        case .releasing:
            phase = .releasing(outcome)
            return []
        case .idle, .over: return []
        }
    }

    private mutating func seen(_ status: String, _ isDone: Bool) -> [Action] {
        switch status {
        case "verify-match" where isDone: return [.report(.matched)] + stop(.matched)
        case "verify-no-match": return [.report(.notMatched)] + stop(.notMatched)
        case "verify-retry-scan": return [.report(.retry)]
        case "verify-swipe-too-short": return [.report(.swipeTooShort)]
        case "verify-finger-not-centered": return [.report(.centreFinger)]
        case "verify-remove-and-retry": return [.report(.removeFinger)]
        case "verify-disconnected": return stop(.failed("the fingerprint reader was disconnected"))
        case _ where isDone:
            return stop(.failed("the fingerprint reader failed (\(status.prefix(40)))"))
        default: return []
        }
    }

    private mutating func stop(_ outcome: VerificationOutcome) -> [Action] {
        phase = .stopping(outcome)
        return [.stopVerification]
    }

    private mutating func release(_ outcome: VerificationOutcome) -> [Action] {
        phase = .releasing(outcome)
        return [.release]
    }

    private mutating func end(_ outcome: VerificationOutcome) -> [Action] {
        phase = .over
        return [.finish(outcome)]
    }

    private static let fprintdErrors = "net.reactivated.Fprint.Error."

    private static func meaning(of name: String, _ text: String) -> VerificationOutcome {
        switch name {
        case fprintdErrors + "NoEnrolledPrints": .notEnrolled
        case fprintdErrors + "AlreadyInUse": .busy
        default: .failed("fprintd refused: \(text.prefix(200))")
        }
    }
}

/// The outcome of one verification.
enum VerificationOutcome: Hashable, Sendable {
    case matched
    case notMatched
    case cancelled
    case late
    case notEnrolled
    /// Another program holds the reader.
    case busy
    /// The reader, or fprintd, failed.
    case failed(String)
}
