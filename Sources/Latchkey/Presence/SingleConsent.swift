internal import Synchronization

/// The presence of one person for one operation that uses the hardware twice.
///
/// It asks whoever it stands for. Only when the operation says that the PIN has just worked, or was just set, may the
/// next question be answered with the same PIN, once: so a person types it once, and a wrong one is never repeated.
/// The hardware checks it each time. The PIN is forgotten with this object, at the end of the operation.
package final class SingleConsent: SetPINAuthority {
    private struct State {
        var pin: PIN?
        var mayRepeat = false
    }

    private let authority: any PresenceAuthority
    private let state = Mutex(State())

    package init(_ authority: any PresenceAuthority) {
        self.authority = authority
    }

    package var broker: PresenceBroker? { authority.broker }
    package var preference: PresencePreference { authority.preference }
    package var acceptsEarlierProof: Bool { authority.acceptsEarlierProof }

    package var gaveSetPIN: Bool { (authority as? any SetPINAuthority)?.gaveSetPIN ?? false }

    /// Says that the PIN was right.
    package func confirm() {
        state.withLock { $0.mayRepeat = $0.pin != nil }
    }

    package func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        let repeated = state.withLock { state -> PIN? in
            guard request.purpose == .current, state.mayRepeat else { return nil }
            state.mayRepeat = false
            return state.pin
        }
        if let repeated { return .pin(repeated) }
        let answer = try await authority.pin(request)
        if case .pin(let pin) = answer { state.withLock { $0 = State(pin: pin) } }
        return answer
    }

    /// What is to be done at the hardware, each time: a finger can't be repeated for anybody.
    package func notice(_ notice: PresenceNotice) async {
        await authority.notice(notice)
    }
}
