internal import Latchkey
internal import Synchronization

/// The user verification of one call that uses the hardware several times, also for a new secret.
///
/// Only after the call confirms that the PIN was correct, or was just set, the next request gets the same PIN, once. So
/// the user types the PIN once, and a wrong one is never repeated. The hardware checks it each time.
final class OnePINConsent: PresenceAuthority {
    private struct State {
        var pin: PIN?
        var mayRepeat = false
    }

    private let authority: any PresenceAuthority
    private let state: Mutex<State>

    /// - Parameter pin: A PIN that answers the first request without a prompt.
    init(_ authority: any PresenceAuthority, offering pin: PIN? = nil) {
        self.authority = authority
        state = Mutex(State(pin: pin, mayRepeat: pin != nil))
    }

    var broker: PresenceBroker? { authority.broker }
    var preference: PresencePreference { authority.preference }
    var acceptsEarlierProof: Bool { authority.acceptsEarlierProof }

    /// The last PIN.
    var pin: PIN? { state.withLock { $0.pin } }

    /// Records that the PIN was correct.
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

/// The last correct secret, in locked memory, for the time that the app allows. A timer erases it.
final class SecretCache: Sendable {
    private struct Kept {
        let pin: PIN
        let deadline: ContinuousClock.Instant
        let timer: Task<Void, Never>
    }

    private let life: Duration?
    private let kept = Mutex<Kept?>(nil)

    /// - Parameter life: nil turns the cache off.
    init(life: Duration?) { self.life = life }

    deinit { clear() }

    var pin: PIN? {
        expire()
        return kept.withLock { $0?.pin }
    }

    func keep(_ pin: PIN?) {
        guard let life, let pin else { return }
        let deadline = ContinuousClock.now + life
        let timer = Task { [weak self] in
            do { try await Task.sleep(until: deadline, clock: .continuous) } catch { return }
            self?.expire()
        }
        kept.withLock { kept in
            kept?.timer.cancel()
            kept = Kept(pin: pin, deadline: deadline, timer: timer)
        }
    }

    func clear() {
        kept.withLock { kept in
            kept?.timer.cancel()
            kept = nil
        }
    }

    private func expire() {
        kept.withLock { kept in
            if let deadline = kept?.deadline, ContinuousClock.now >= deadline { kept = nil }
        }
    }
}
