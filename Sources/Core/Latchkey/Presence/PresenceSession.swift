internal import Synchronization

/// The user verification of one operation, which may use the hardware several times with one
/// prompt.
///
/// It forwards requests to an authority. The keystore reports whether the hardware accepted the
/// PIN: ``accepted()``, ``rejected()``. After acceptance, the
/// next request for the current PIN gets the same PIN, until the hardware decides again; so a wrong
/// PIN is never sent twice. A new PIN that the user has chosen also answers later requests for a
/// new PIN, until it is rejected. The hardware checks the PIN each time. The PIN is discarded with
/// this object, at the end of the operation.
package final class PresenceSession: PresenceAuthority {
    /// Verifies the container's existing PIN with the hardware; returns `false` if the container
    /// has no PIN.
    package typealias PINVerification =
        @Sendable (PromptContext, any PresenceAuthority) async throws(KeystoreError) -> Bool

    private struct State {
        /// The last answer, or nil if it cannot be repeated.
        var pin: PIN?
        /// Whether it answers requests for a new PIN.
        var isNew = false
        /// Whether the hardware has accepted the PIN since the last answer with it.
        var isAccepted = false
        /// The last PIN that the hardware accepted.
        var accepted: PIN?

        /// The PIN that answers a request without a prompt, or nil.
        mutating func answer(to purpose: PINRequest.Purpose) -> PIN? {
            switch purpose {
            case .current where isAccepted:
                isAccepted = false
                return pin
            case .new where isNew: return pin
            default: return nil
            }
        }

        mutating func store(_ pin: PIN?, isNew: Bool = false) {
            self = State(pin: pin, isNew: isNew, accepted: accepted)
        }
    }

    private let authority: any PresenceAuthority
    private let allowsEarlierProof: Bool
    package let preference: PresencePreference
    private let verifyExistingPIN: PINVerification?
    private let state: Mutex<State>

    /// - Parameters:
    ///   - acceptsEarlierProof: Whether an earlier proof can be used without a prompt, and a proof
    ///     of this session later, if the authority accepts that too.
    ///   - preference: The kind of proof to request; nil for the authority's preference.
    ///   - firstPIN: A PIN that answers the first request, without a prompt.
    ///   - verifyExistingPIN: Verifies the container's existing PIN. The verified PIN then answers
    ///     requests for a new PIN, so that a container has one PIN.
    package init(
        _ authority: any PresenceAuthority, acceptsEarlierProof: Bool = true,
        preferring preference: PresencePreference? = nil, firstPIN: PIN? = nil,
        verifyExistingPIN: PINVerification? = nil
    ) {
        self.authority = authority
        allowsEarlierProof = acceptsEarlierProof
        self.preference = preference ?? authority.preference
        self.verifyExistingPIN = verifyExistingPIN
        state = Mutex(State(pin: firstPIN, isAccepted: firstPIN != nil))
    }

    package var acceptsEarlierProof: Bool { allowsEarlierProof && authority.acceptsEarlierProof }
    package var broker: PresenceBroker? { authority.broker }
    package var isInteractive: Bool { authority.isInteractive }

    /// The last PIN that the hardware accepted; nil if it has not accepted a PIN yet, or has
    /// rejected one since.
    package var acceptedPIN: PIN? { state.withLock(\.accepted) }

    package func notice(_ notice: PresenceNotice) async { await authority.notice(notice) }

    package func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        if let repeated = state.withLock({ $0.answer(to: request.purpose) }) {
            return .pin(repeated)
        }
        if request.purpose == .new, let answer = try await existingPIN(for: request.context) {
            return answer
        }
        let answer = try await authority.pin(request)
        state.withLock { state in
            switch (answer, request.purpose) {
            case (.pin(let pin), .current): state.store(pin)
            case (.pin(let pin), .new): state.store(pin, isNew: true)
            // Codes of other purposes, such as a management key, are never repeated.
            default: state.store(nil)
            }
        }
        return answer
    }

    /// Prompts for the container's existing PIN, and returns it after the hardware has accepted it.
    ///
    /// - Returns: nil if the container has no PIN.
    private func existingPIN(for prompt: PromptContext) async throws(KeystoreError) -> PINAnswer? {
        guard let verifyExistingPIN else { return nil }
        let session = PresenceSession(authority, acceptsEarlierProof: false)
        guard try await verifyExistingPIN(prompt, session) else { return nil }
        session.accepted()
        let answer = try await session.pin(PINRequest(purpose: .current, context: prompt))
        guard case .pin(var pin) = answer else { return answer }
        pin.isExisting = true
        state.withLock { [pin] state in
            state.store(pin, isNew: true)
            state.accepted = pin
        }
        return .pin(pin)
    }

    package func accepted() {
        state.withLock { state in
            state.isAccepted = state.pin != nil
            state.accepted = state.pin ?? state.accepted
        }
        // A session may forward to the session of a larger operation.
        authority.accepted()
    }

    package func rejected() {
        state.withLock { $0 = State() }
        authority.rejected()
    }
}
