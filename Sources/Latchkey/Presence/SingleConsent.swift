internal import Synchronization

/// The user verification of one operation that uses the hardware twice, with one prompt.
///
/// It forwards requests to another authority. After the operation has called ``confirm()``, because the PIN was right or was
/// just set, it answers the next request with the same PIN, once. So the user types a PIN once, and a wrong PIN is never
/// sent again. The hardware checks the PIN each time. The PIN is discarded with this object, at the end of the operation.
package final class SingleConsent: ForwardingPresence, SetPINAuthority {
    private struct State {
        var pin: PIN?
        var mayRepeat = false
    }

    package let authority: any PresenceAuthority
    private let state = Mutex(State())

    package init(_ authority: any PresenceAuthority) {
        self.authority = authority
    }

    package var gaveSetPIN: Bool { (authority as? any SetPINAuthority)?.gaveSetPIN ?? false }

    /// Reports that the PIN was right.
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
}

/// A presence authority that accepts no earlier proof and so always prompts, for example to confirm the owner's identity.
package struct FreshPresence: ForwardingPresence {
    package let authority: any PresenceAuthority

    package init(_ authority: any PresenceAuthority) {
        self.authority = authority
    }

    package var acceptsEarlierProof: Bool { false }
}

/// Prompts for a new PIN once, and answers later requests for a new PIN with the same PIN: for an operation that is tried in
/// two ways.
final class ChosenPIN: ForwardingPresence {
    package let authority: any PresenceAuthority
    private let chosen = Mutex<PIN?>(nil)

    init(_ authority: any PresenceAuthority) { self.authority = authority }

    func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        guard request.purpose == .new else { return try await authority.pin(request) }
        if let pin = chosen.withLock(\.self) { return .pin(pin) }
        let answer = try await authority.pin(request)
        if case .pin(let pin) = answer { chosen.withLock { $0 = pin } }
        return answer
    }
}

/// Answers a request for a new PIN with the container's existing PIN, if there is one: it prompts for that PIN, and the
/// hardware checks it. So all classes of a container have one PIN.
final class ExistingPIN: ForwardingPresence, SetPINAuthority {
    package let authority: any PresenceAuthority
    private let keystore: any Keystore
    private let witness: @Sendable () async throws(KeystoreError) -> SealedSecret?
    private let gave = Mutex(false)

    /// - Parameter witness: Returns a class that has the PIN, if there is one.
    init(
        authority: any PresenceAuthority, keystore: any Keystore,
        witness: @escaping @Sendable () async throws(KeystoreError) -> SealedSecret?
    ) {
        self.authority = authority
        self.keystore = keystore
        self.witness = witness
    }

    var gaveSetPIN: Bool { gave.withLock(\.self) }

    func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        guard request.purpose == .new, let sealed = try await witness() else {
            return try await authority.pin(request)
        }
        let consent = SingleConsent(FreshPresence(authority))
        _ = try await keystore.unseal(sealed, for: request.context, authorizedBy: consent)
        consent.confirm()
        gave.withLock { $0 = true }
        return try await consent.pin(PINRequest(purpose: .current, context: request.context))
    }
}

/// An authority that can answer a request for a new PIN with the existing PIN.
///
/// A keystore applies its rules for new PINs only to a PIN that the user chooses now.
package protocol SetPINAuthority: PresenceAuthority {
    /// Whether the last request for a new PIN was answered with the existing PIN, which the hardware has checked.
    var gaveSetPIN: Bool { get }
}

/// An authority that forwards to another one everything that it does not implement.
package protocol ForwardingPresence: PresenceAuthority {
    var authority: any PresenceAuthority { get }
}

extension ForwardingPresence {
    package var acceptsEarlierProof: Bool { authority.acceptsEarlierProof }
    package var broker: PresenceBroker? { authority.broker }
    package var preference: PresencePreference { authority.preference }

    package func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        try await authority.pin(request)
    }

    package func notice(_ notice: PresenceNotice) async { await authority.notice(notice) }
}
