internal import Latchkey
internal import Synchronization

/// One person's presence for one call that uses the hardware several times, for a new secret too.
///
/// Only when the call says that the PIN has just worked, or was just set, is the next question answered with the same
/// PIN, once: a person types it once, and a wrong one is never repeated. The hardware checks it each time.
final class OnePINConsent: PresenceAuthority {
    private struct State {
        var pin: PIN?
        var mayRepeat = false
    }

    private let authority: any PresenceAuthority
    private let state: Mutex<State>

    /// - Parameter pin: A PIN to answer the first question with, before anybody is asked.
    init(_ authority: any PresenceAuthority, offering pin: PIN? = nil) {
        self.authority = authority
        state = Mutex(State(pin: pin, mayRepeat: pin != nil))
    }

    var broker: PresenceBroker? { authority.broker }
    var preference: PresencePreference { authority.preference }
    var acceptsEarlierProof: Bool { authority.acceptsEarlierProof }

    /// The PIN that was given last.
    var pin: PIN? { state.withLock { $0.pin } }

    /// Says that the PIN was right.
    func confirm() {
        state.withLock { $0.mayRepeat = $0.pin != nil }
    }

    func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        let repeated = state.withLock { state -> PIN? in
            guard state.mayRepeat, request.purpose == .current || request.purpose == .new else { return nil }
            state.mayRepeat = false
            return state.pin
        }
        if let repeated { return .pin(repeated) }
        let answer = try await authority.pin(request)
        if case .pin(let pin) = answer { state.withLock { $0 = State(pin: pin) } }
        return answer
    }

    func notice(_ notice: PresenceNotice) async {
        await authority.notice(notice)
    }
}
