/// One PIN for all classes of a container: where the hardware asks for a new PIN and the container has one already, the
/// person is asked for that one, and the hardware checks it.
struct StandingPIN: PresenceAuthority {
    let authority: any PresenceAuthority
    let keystore: any Keystore
    /// A class that has the PIN, if there is one.
    let witness: @Sendable () async throws(KeystoreError) -> SealedSecret?

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
        return try await consent.pin(PINRequest(purpose: .current, context: request.context))
    }

    func notice(_ notice: PresenceNotice) async {
        await authority.notice(notice)
    }
}
