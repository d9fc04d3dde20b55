internal import Synchronization

/// One person who chooses one PIN, for what is tried in two ways: the second way is not a second question.
final class ChosenPIN: PresenceAuthority {
    private let authority: any PresenceAuthority
    private let chosen = Mutex<PIN?>(nil)

    init(_ authority: any PresenceAuthority) { self.authority = authority }

    var acceptsEarlierProof: Bool { authority.acceptsEarlierProof }
    var broker: PresenceBroker? { authority.broker }
    var preference: PresencePreference { authority.preference }

    func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        guard request.purpose == .new else { return try await authority.pin(request) }
        if let pin = chosen.withLock(\.self) { return .pin(pin) }
        let answer = try await authority.pin(request)
        if case .pin(let pin) = answer { chosen.withLock { $0 = pin } }
        return answer
    }

    func notice(_ notice: PresenceNotice) async {
        await authority.notice(notice)
    }
}
