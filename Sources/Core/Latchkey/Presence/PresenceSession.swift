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
        /// Whether the hardware has rejected the last PIN.
        var isRejected = false
        /// Whether the operation runs a second time.
        var isRepeated = false
        /// Whether the prompts are for the PIN that the container already has.
        var isOfContainer = false

        /// The PIN that answers a request without a prompt, or nil.
        mutating func answer(to request: PINRequest) -> PIN? {
            switch request.purpose {
            case .current where isAccepted:
                isAccepted = false
                return pin
            // A PIN that is too short for this request is asked for again.
            case .new where isNew:
                guard let pin,
                    pin.isExisting || pin.characterCount >= request.minimumCharacters
                else { return nil }
                return pin
            default: return nil
            }
        }

        mutating func store(_ pin: PIN?, isNew: Bool = false) {
            self = State(
                pin: pin, isNew: isNew, accepted: accepted, isRejected: isRejected,
                isRepeated: isRepeated, isOfContainer: isOfContainer)
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
        if let repeated = state.withLock({ $0.answer(to: request) }) {
            return .pin(repeated)
        }
        if request.purpose == .new, let answer = try await existingPIN(for: request.context) {
            return answer
        }
        let answer = try await authority.pin(hinting(request))
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

    /// The way to another PIN after a wrong one.
    private static let forgotten: Recovery =
        "If you forgot it, delete all secrets of this container that have it: the next one then gets a new PIN."

    /// Prompts for the container's existing PIN, and returns it after the hardware has accepted it.
    ///
    /// - Returns: nil if the container has no PIN.
    private func existingPIN(for prompt: PromptContext) async throws(KeystoreError) -> PINAnswer? {
        guard let verifyExistingPIN else { return nil }
        let session = PresenceSession(authority, acceptsEarlierProof: false)
        let (isRejected, isRepeated) = state.withLock { ($0.isRejected, $0.isRepeated) }
        session.state.withLock {
            $0 = State(isRejected: isRejected, isRepeated: isRepeated, isOfContainer: true)
        }
        defer {
            let isRejected = session.state.withLock(\.isRejected)
            state.withLock { $0.isRejected = isRejected }
        }
        do throws(KeystoreError) {
            guard try await verifyExistingPIN(prompt, session) else { return nil }
        } catch {
            guard error.code == .wrongProof else { throw error }
            throw error.with(recovery: error.recoveryAction.then(Self.forgotten))
        }
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
            state.isRejected = false
        }
        // A session may forward to the session of a larger operation.
        authority.accepted()
    }

    package func rejected() {
        state.withLock {
            $0 = State(
                isRejected: true, isRepeated: $0.isRepeated, isOfContainer: $0.isOfContainer)
        }
        authority.rejected()
    }
}

extension PresenceSession {
    /// Runs an operation that uses the hardware, for a program whose user starts the operation in
    /// another program and cannot repeat it there. If the hardware rejects the proof, the operation
    /// runs once more, and the next prompt says that the last PIN was wrong.
    ///
    /// It does not run again if no person reads the prompts, and not after a wrong PIN without a
    /// report of the hardware that attempts are left: the next wrong PIN could lock it. The
    /// presence broker counts fingers.
    package func withSecondAttempt<Value>(
        _ operation: () async throws(KeystoreError) -> Value
    ) async throws(KeystoreError) -> Value {
        do throws(KeystoreError) { return try await operation() } catch {
            guard permitsSecondAttempt(after: error) else { throw error }
            state.withLock { $0.isRepeated = true }
            return try await operation()
        }
    }

    private func permitsSecondAttempt(after error: KeystoreError) -> Bool {
        guard error.code == .wrongProof, isInteractive, !Task.isCancelled else { return false }
        return !state.withLock(\.isRejected) || error.attemptsLeft ?? 0 > 0
    }

    /// The request with hints: after a rejected PIN, and for the PIN that the container already has,
    /// which the user could take for a new one.
    private func hinting(_ request: PINRequest) -> PINRequest {
        guard request.purpose == .current else { return request }
        let (isAfterWrong, isOfContainer) = state.withLock {
            ($0.isRepeated && $0.isRejected, $0.isOfContainer)
        }
        var request = request
        let hints = [
            isAfterWrong ? "The last PIN was wrong." : nil,
            isOfContainer
                ? "It is the PIN that the vaults and other secrets of this container already have."
                : nil,
            request.hint,
        ].compactMap(\.self)
        request.hint = hints.isEmpty ? nil : hints.joined(separator: " ")
        return request
    }
}
