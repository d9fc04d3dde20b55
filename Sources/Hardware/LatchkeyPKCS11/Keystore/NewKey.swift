internal import FoundationEssentials
internal import Latchkey

/// A key pair that was just generated or adopted.
struct NewKey: Sendable {
    let key: TokenKey
    let attestation: PIVAttestation?

    /// Whether the token requires a login to use the key. On a PIV card the slot and the key's PIN
    /// policy decide, because modules report `CKA_PRIVATE` without reading the card.
    func needsLogin(on profile: TokenProfile) -> Bool {
        if let pin = attestation?.pin { return pin != .never }
        if profile.isPIV { return key.id != PIVSlot.cardAuthentication.id }
        return key.attributes.isPrivate ?? true
    }
}

extension Session {
    /// Generates a key as the user, and tests it. A failure leaves no key.
    func generateTestedKey(_ pair: KeyPairRequest, _ proof: LoginProof?)
        throws(CryptokiError) -> NewKey
    {
        let key = try generateKeyPair(pair, acceptsOtherID: true)
        return try destroyingOnError(key.id) { () throws(CryptokiError) in
            guard (1...64).contains(key.id.count) else {
                throw CryptokiError(
                    .unsound, reason: "the token gave the key a CKA_ID of \(key.id.count) bytes")
            }
            try selfTest(key, with: key.wantsProofAtUse ? proof : nil)
            guard let isPrivate = key.attributes.isPrivate else {
                throw CryptokiError(
                    .unsound,
                    reason: "the token does not report whether the key needs a login (CKA_PRIVATE)")
            }
            guard isPrivate == pair.isPrivate else {
                throw CryptokiError(
                    .unsound,
                    reason:
                        "the token created a key that \(pair.isPrivate ? "needs no login" : "needs a login")"
                )
            }
            return NewKey(key: key, attestation: nil)
        }
    }

    /// - Throws: `occupied`.
    func firstFree(of slots: [PIVSlot]) throws(CryptokiError) -> PIVSlot {
        for slot in slots where try !isOccupied(id: slot.id) { return slot }
        throw CryptokiError(
            .occupied,
            reason: "there is a key already in the slot\(slots.count > 1 ? "s" : "") "
                + slots.map(\.description).joined(separator: ", "))
    }
}
