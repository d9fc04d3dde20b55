public import Latchkey
internal import Synchronization

/// An authority that answers from a list, in order, and remembers what it was asked.
public final class ScriptedPresence: PresenceAuthority {
    /// One answer.
    public enum Step: Sendable {
        case pin(String)
        case decline
        /// Says nothing until the prompt is withdrawn.
        case hesitate
        /// As if there were nobody to ask.
        case unavailable
    }

    private struct State {
        var steps: ArraySlice<Step>
        var requests: [PINRequest] = []
    }

    public let broker: (any PresenceBroker)?
    public let preference: PresencePreference
    private let state: Mutex<State>

    public init(_ steps: [Step], broker: (any PresenceBroker)? = nil, preferring preference: PresencePreference = .any)
    {
        state = Mutex(State(steps: steps[...]))
        self.broker = broker
        self.preference = preference
    }

    /// An authority that types these PINs, one per request.
    public convenience init(pins: String...) {
        self.init(pins.map(Step.pin))
    }

    /// Everything that was asked so far.
    public var requests: [PINRequest] { state.withLock { $0.requests } }

    public func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
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
