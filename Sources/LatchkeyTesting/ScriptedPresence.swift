public import Latchkey
internal import Synchronization

/// An authority that answers from a list, in order, and remembers what it was asked.
public final class ScriptedPresence: PresenceAuthority {
    /// One answer.
    public enum Step: Sendable {
        /// Gives this PIN.
        case pin(String)
        /// Says no.
        case decline
        /// Says nothing until the prompt is withdrawn.
        case hesitate
        /// As if there were nobody to ask.
        case unavailable
    }

    private struct State {
        var steps: ArraySlice<Step>
        var requests: [PINRequest] = []
        var notices: [PresenceNotice] = []
    }

    public let broker: PresenceBroker?
    public let preference: PresencePreference
    private let state: Mutex<State>
    private let officerPIN: String?
    private let reader: (@Sendable (Step) async -> Void)?

    /// - Parameters:
    ///   - broker: Who looks at fingers.
    ///   - officerPIN: The answer to every request for the security officer's PIN, which then takes no step and is not
    ///     among ``requests``.
    ///   - reader: Shows the next step to the reader's own pad or sensor, each time that the person is told to use it.
    public init(
        _ steps: [Step], broker: PresenceBroker? = nil, preferring preference: PresencePreference = .any,
        officerPIN: String? = nil, reader: (@Sendable (Step) async -> Void)? = nil
    ) {
        state = Mutex(State(steps: steps[...]))
        self.broker = broker
        self.preference = preference
        self.officerPIN = officerPIN
        self.reader = reader
    }

    /// One with a broker of this package's own.
    package convenience init(
        _ steps: [Step], broker: any ApprovalService, preferring preference: PresencePreference = .any
    ) {
        self.init(steps, broker: PresenceBroker(broker), preferring: preference)
    }

    /// An authority that types these PINs, one per request.
    public convenience init(pins: String..., officerPIN: String? = nil) {
        self.init(pins.map(Step.pin), officerPIN: officerPIN)
    }

    /// Everything that was asked so far.
    public var requests: [PINRequest] { state.withLock { $0.requests } }

    /// For what a proof was wanted so far, typed or shown to the reader.
    public var asked: [PromptContext] {
        state.withLock { state in
            state.requests.map(\.context) + state.notices.filter { $0.action == .useReader }.map(\.context)
        }
    }

    /// Everything that was told so far.
    public var notices: [PresenceNotice] { state.withLock { $0.notices } }

    public func notice(_ notice: PresenceNotice) async {
        let step = state.withLock { state -> Step? in
            state.notices.append(notice)
            return notice.action == .useReader ? state.steps.popFirst() : nil
        }
        if let step { await reader?(step) }
    }

    public func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        if request.purpose == .securityOfficer, let officerPIN { return .pin(try PIN(officerPIN)) }
        let step = state.withLock { state in
            state.requests.append(request)
            return state.steps.popFirst()
        }
        switch step {
        case .pin(let text): return .pin(try PIN(text))
        case .decline: return .declined("the script declined")
        case .hesitate:
            while !Task.isCancelled { try? await Task.sleep(for: .seconds(3600)) }
            return .declined("the prompt was withdrawn")
        case .unavailable: return try await NobodyPresent().pin(request)
        case nil:
            throw KeystoreError(
                operation: request.context.reason, code: .failed, reason: "the script has no answer left",
                recovery: "Give the test one answer for each prompt that it expects.")
        }
    }
}
