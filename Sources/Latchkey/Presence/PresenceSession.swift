internal import Synchronization

/// The user verification of one operation, which may use the hardware several times with one prompt.
///
/// It forwards requests to an authority. The keystore reports whether the hardware accepted the PIN:
/// ``PresenceAuthority/accepted()``, ``PresenceAuthority/rejected()``. After acceptance, the next request for the current
/// PIN gets the same PIN, until the hardware decides again; so a wrong PIN is never sent twice. A new PIN that the user has
/// chosen also answers later requests for a new PIN, until it is rejected. The hardware checks the PIN each time. The PIN
/// is discarded with this object, at the end of the operation.
package final class PresenceSession: PresenceAuthority {
    package struct Options: Sendable {
        /// Whether an earlier proof can be used without a prompt, if the authority accepts one too.
        package var acceptsEarlierProof = true
        /// A PIN that answers the first request, without a prompt.
        package var firstPIN: PIN?
        /// Verifies the container's existing PIN; returns `false` if the container has no PIN. The verified PIN answers
        /// requests for a new PIN, so that a container has one PIN.
        package var verifyExistingPIN:
            (@Sendable (PromptContext, any PresenceAuthority) async throws(KeystoreError) -> Bool)?

        package init(
            acceptsEarlierProof: Bool = true, firstPIN: PIN? = nil,
            verifyExistingPIN: (@Sendable (PromptContext, any PresenceAuthority) async throws(KeystoreError) -> Bool)? =
                nil
        ) {
            self.acceptsEarlierProof = acceptsEarlierProof
            self.firstPIN = firstPIN
            self.verifyExistingPIN = verifyExistingPIN
        }
    }

    fileprivate struct State {
        var pin: PIN?
        /// Whether the hardware has accepted the PIN since the last answer with it.
        var isAccepted = false
        /// Whether the PIN is the user's answer to a request for a new PIN.
        var isNew = false
        var isExisting = false
        /// The last PIN that the hardware accepted.
        var accepted: PIN?
    }

    private let authority: any PresenceAuthority
    private let options: Options
    private let state: Mutex<State>

    package init(_ authority: any PresenceAuthority, _ options: Options = Options()) {
        self.authority = authority
        self.options = options
        state = Mutex(State(pin: options.firstPIN, isAccepted: options.firstPIN != nil))
    }

    package var acceptsEarlierProof: Bool { options.acceptsEarlierProof && authority.acceptsEarlierProof }
    package var broker: PresenceBroker? { authority.broker }
    package var preference: PresencePreference { authority.preference }

    /// The last PIN that the hardware accepted, or nil.
    package var acceptedPIN: PIN? { state.withLock(\.accepted) }

    fileprivate var gaveExistingPIN: Bool {
        state.withLock(\.isExisting) || authority.gaveExistingPIN
    }

    package func notice(_ notice: PresenceNotice) async { await authority.notice(notice) }

    package func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        if let repeated = state.withLock({ $0.answer(to: request.purpose) }) { return .pin(repeated) }
        if request.purpose == .new, let verify = options.verifyExistingPIN {
            let session = PresenceSession(authority, Options(acceptsEarlierProof: false))
            if try await verify(request.context, session) {
                session.decide(true)
                let answer = try await session.pin(PINRequest(purpose: .current, context: request.context))
                if case .pin(let pin) = answer {
                    state.withLock { $0 = State(pin: pin, isNew: true, isExisting: true) }
                }
                return answer
            }
        }
        let answer = try await authority.pin(request)
        state.withLock { state in
            let accepted = state.accepted
            state = State()
            // Codes of other purposes, such as a management key, are never repeated.
            if case .pin(let pin) = answer, [.current, .new].contains(request.purpose) {
                state = State(pin: pin, isNew: request.purpose == .new)
            }
            state.accepted = accepted
        }
        return answer
    }

    fileprivate func decide(_ isAccepted: Bool) {
        state.withLock { state in
            guard isAccepted else {
                state = State()
                return
            }
            state.isAccepted = state.pin != nil
            state.accepted = state.pin ?? state.accepted
        }
        // A session may forward to the session of a larger operation.
        (authority as? PresenceSession)?.decide(isAccepted)
    }
}

extension PresenceSession.State {
    /// The PIN that answers a request without a prompt, or nil.
    fileprivate mutating func answer(to purpose: PINRequest.Purpose) -> PIN? {
        switch purpose {
        case .current where isAccepted:
            isAccepted = false
            return pin
        case .new where isNew: return pin
        default: return nil
        }
    }
}

extension PresenceAuthority {
    /// The hardware has accepted the last PIN: it was right, or was set. A keystore calls this.
    package func accepted() { (self as? PresenceSession)?.decide(true) }

    /// The hardware has rejected the last PIN. A keystore calls this.
    package func rejected() { (self as? PresenceSession)?.decide(false) }

    /// Whether the last request for a new PIN was answered with the container's existing PIN, which the hardware has
    /// checked. A keystore applies its rules for new PINs only to a PIN that the user chooses now.
    package var gaveExistingPIN: Bool { (self as? PresenceSession)?.gaveExistingPIN ?? false }
}
