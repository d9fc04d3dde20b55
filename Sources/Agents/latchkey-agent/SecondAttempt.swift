import Latchkey

/// A prompt after a wrong PIN.
struct SecondAttempt: PresenceAuthority {
    let authority: any PresenceAuthority

    var broker: PresenceBroker? { authority.broker }
    var preference: PresencePreference { authority.preference }
    var acceptsEarlierProof: Bool { authority.acceptsEarlierProof }
    var isInteractive: Bool { authority.isInteractive }

    func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        var request = request
        request.hint = "The last PIN was wrong."
        return try await authority.pin(request)
    }

    func notice(_ notice: PresenceNotice) async { await authority.notice(notice) }
    func accepted() { authority.accepted() }
    func rejected() { authority.rejected() }
}
