internal import Synchronization

/// One PIN for all classes of a container: where the hardware asks for a new PIN and the container has one already, the
/// person is asked for that one, and the hardware checks it.
final class StandingPIN: SetPINAuthority {
    private let authority: any PresenceAuthority
    private let keystore: any Keystore
    private let witness: @Sendable () async throws(KeystoreError) -> SealedSecret?
    private let gave = Mutex(false)

    /// - Parameter witness: A class that has the PIN, if there is one.
    init(
        authority: any PresenceAuthority, keystore: any Keystore,
        witness: @escaping @Sendable () async throws(KeystoreError) -> SealedSecret?
    ) {
        self.authority = authority
        self.keystore = keystore
        self.witness = witness
    }

    var gaveSetPIN: Bool { gave.withLock(\.self) }
    var acceptsEarlierProof: Bool { authority.acceptsEarlierProof }
    var broker: PresenceBroker? { authority.broker }
    var preference: PresencePreference { authority.preference }

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

    func notice(_ notice: PresenceNotice) async {
        await authority.notice(notice)
    }
}
