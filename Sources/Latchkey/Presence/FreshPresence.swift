/// The presence of somebody who is asked now: no earlier proof serves in place of the answer.
///
/// It asks whoever it stands for. For operations that are done to see who is there, like confirming that the owner is.
package struct FreshPresence: PresenceAuthority {
    private let authority: any PresenceAuthority

    package init(_ authority: any PresenceAuthority) {
        self.authority = authority
    }

    package var acceptsEarlierProof: Bool { false }
    package var broker: PresenceBroker? { authority.broker }
    package var preference: PresencePreference { authority.preference }

    package func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        try await authority.pin(request)
    }

    package func notice(_ notice: PresenceNotice) async { await authority.notice(notice) }
}
