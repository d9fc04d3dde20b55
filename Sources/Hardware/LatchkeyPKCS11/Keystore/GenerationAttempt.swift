internal import FoundationEssentials
internal import Latchkey
internal import Synchronization

/// One attempt to generate a key on a card as the security officer. It explains a failure. Modules
/// that require the security officer for this can't delete keys, so a failure after the generation
/// leaves an unused key on the card.
final class GenerationAttempt: Sendable {
    private let slots: [PIVSlot]
    private let use: KeyPairRequest.Use
    private let begun = Mutex<PIVSlot?>(nil)

    /// - Parameter slots: The slots of which the first free one is used.
    init(in slots: [PIVSlot], for use: KeyPairRequest.Use) {
        self.slots = slots
        self.use = use
    }

    /// The slots to choose from: after an interruption only the same one, which may contain the
    /// first key.
    var candidates: [PIVSlot] { begun.withLock(\.self).map { [$0] } ?? slots }

    /// Call it directly before the generation.
    func begin(_ slot: PIVSlot) { begun.withLock { $0 = slot } }

    /// The error for a failed generation; nil if the generation had not begun, or if `error` needs
    /// no more explanation.
    func failure(_ error: CryptokiError, _ snapshot: TokenSnapshot) async -> KeystoreError? {
        guard let slot = begun.withLock(\.self) else { return nil }
        if error.function == Session.generation, let value = error.returnValue {
            guard value == .deviceError else { return nil }
            if await isEmptyAndPresent(slot, snapshot) { return refused(slot, error) }
        }
        let failure = KeystoreError(error, profile: snapshot.module)
        let unused = Recovery(
            "The slot \(slot) may now contain an unused key. "
                + (use == .sign
                    ? "Another program may have created the key: adopt it by its URI, or delete it only if no program needs it."
                    : "If the next attempt refuses the key, delete it only if no program needs it."),
            .listTokenKeys)
        return KeystoreError(
            code: failure.code, reason: failure.reason,
            recovery: error.kind == .occupied ? unused : failure.recoveryAction.then(unused),
            underlying: failure.underlying)
    }

    /// Whether the card still answers and has no key in the slot. Otherwise it was removed, or
    /// another program has reset it.
    private func isEmptyAndPresent(_ slot: PIVSlot, _ snapshot: TokenSnapshot) async -> Bool {
        let token = snapshot.token
        let isEmpty = try? await token.exclusively { () throws(CryptokiError) in
            try await token.withSession { (session) throws(CryptokiError) in
                let information = try session.tokenInformation()
                try information.checkWasRead(by: session.profile)
                return try !session.isOccupied(id: slot.id)
            }
        }
        return isEmpty ?? false
    }

    /// Modules answer CKR_DEVICE_ERROR for a slot that the card does not have.
    private func refused(_ slot: PIVSlot, _ error: CryptokiError) -> KeystoreError {
        let used = slots.prefix { $0 != slot }.map(\.description).joined(separator: ", ")
        guard used.isEmpty else {
            return .conflict(
                "all slots for such a key are in use (\(used)), and the card does not have the slot \(slot)",
                recovery: Recovery(
                    "Adopt an existing key by its URI, or delete one. The keys of removed entries stay in their slots.",
                    .listTokenKeys))
        }
        return KeystoreError(
            code: .unsupported,
            reason:
                "the card refuses to create a key in the slot \(slot): it may not have this slot",
            recovery: Recovery("Choose another slot.", .chooseSlot),
            underlying: UnderlyingError(error)
        )
    }
}
