public import Latchkey
internal import Synchronization

/// A presence authority that answers prompts from a list, in order, and records the prompts.
public final class ScriptedPresence: PresenceAuthority {
    /// One answer.
    public enum Step: Sendable {
        /// Enters this PIN.
        case pin(String)
        /// Declines.
        case decline
        /// Does not answer until the prompt is cancelled.
        case hesitate
        /// Fails as if no prompt were available.
        case unavailable
    }

    private struct State {
        var steps: ArraySlice<Step>
        var requests: [PINRequest] = []
        var notices: [PresenceNotice] = []
    }

    public let broker: PresenceBroker?
    public let preference: PresencePreference
    public let isInteractive: Bool
    private let state: Mutex<State>
    private let officerPIN: String?
    private let reader: (@Sendable (Step) async -> Void)?

    /// - Parameters:
    ///   - broker: The presence broker for fingerprints.
    ///   - isInteractive: Whether the answers come from a user who sees the prompts.
    ///   - officerPIN: The answer to every request for the security officer's PIN. These requests
    ///     use no step and are not in ``requests``.
    ///   - reader: Receives the next step when the user is told to use the reader's PIN pad or
    ///     sensor.
    public init(
        _ steps: [Step], broker: PresenceBroker? = nil,
        preferring preference: PresencePreference = .any, isInteractive: Bool = true,
        officerPIN: String? = nil, reader: (@Sendable (Step) async -> Void)? = nil
    ) {
        state = Mutex(State(steps: steps[...]))
        self.broker = broker
        self.preference = preference
        self.isInteractive = isInteractive
        self.officerPIN = officerPIN
        self.reader = reader
    }

    /// Creates an authority that enters these PINs, one for each request.
    public convenience init(pins: String..., officerPIN: String? = nil) {
        self.init(pins.map(Step.pin), officerPIN: officerPIN)
    }

    /// The PIN requests so far.
    public var requests: [PINRequest] { state.withLock { $0.requests } }

    /// The contexts of all prompts so far, for a PIN or at the reader.
    public var asked: [PromptContext] {
        state.withLock { state in
            state.requests.map(\.context)
                + state.notices.compactMap {
                    if case .useReader(let context) = $0 { context } else { nil }
                }
        }
    }

    /// The notices so far.
    public var notices: [PresenceNotice] { state.withLock { $0.notices } }

    public func notice(_ notice: PresenceNotice) async {
        let step = state.withLock { state -> Step? in
            state.notices.append(notice)
            guard case .useReader = notice else { return nil }
            return state.steps.popFirst()
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
            return .declined("the prompt was cancelled")
        case .unavailable: return try await NobodyPresent().pin(request)
        case nil:
            throw KeystoreError(
                operation: request.context.reason, code: .failed,
                reason: "the script has no step left",
                recovery: "Give the script one step for each expected prompt.")
        }
    }
}
