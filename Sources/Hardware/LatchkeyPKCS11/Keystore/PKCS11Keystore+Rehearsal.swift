internal import FoundationEssentials
package import Latchkey

/// The known facts about the creation of the next key, before a prompt.
package struct CreationCheck: Sendable {
    /// The slot for the new key on a PIV card.
    package let slot: PIVSlot?
    /// On a PIV card, whether the card is known to have the slot. Cards without attestation may lack
    /// retired slots, and modules show a missing slot as free. On another token, whether it shows
    /// the key that the URI names by `id`.
    package let isKnown: Bool
    package let rehearsal: Rehearsal
    /// Why the token can't seal secrets, if that is known.
    package let sealingFailure: KeystoreError?

    /// The result of the attempt to create a key that the token does not store.
    package enum Rehearsal: Hashable, Sendable {
        /// The token created a key as in ``PKCS11Keystore/createKey(_:authorizedBy:)`` and signed
        /// with it, without a login.
        case passed
        /// The token can't be tried without a proof; the reason, as a clause.
        case notTried(String)
        /// The token refused a key that it does not store, and may create others; its answer.
        case refused(String)
    }
}

extension PKCS11Keystore {
    /// Checks whether a key can be created or adopted now, as ``createKey(_:authorizedBy:)`` does
    /// before its first prompt, and rehearses the creation. Does not prompt, and sends no proof.
    ///
    /// - Parameter policy: nil for the policy of the token's own user verification.
    /// - Throws: `KeystoreError`, as ``createKey(_:authorizedBy:)``.
    package func checkCreation(
        of policy: AccessPolicy? = nil
    ) async throws(KeystoreError) -> CreationCheck {
        do throws(KeystoreError) {
            let (snapshot, place) = try await prepareCreation(policy)
            var slot: PIVSlot?
            var isKnown = uri.keyID == nil || snapshot.publicKey != nil
            if let place, let first = place.slots?.first(where: { $0.id == place.id }) {
                slot = first
                isKnown = try await snapshot.token.inspect { (session) throws(CryptokiError) in
                    guard first.isRetired else { return true }
                    return try session.hasAttestationKey()
                }
            }
            let rehearsal = try await rehearseCreation(snapshot)
            return CreationCheck(
                slot: slot, isKnown: isKnown, rehearsal: rehearsal,
                sealingFailure: await sealingFailure(snapshot, rehearsal))
        } catch {
            throw error.during(uri.namesKey ? "adopt a key" : "create a key")
        }
    }

    /// Creates a key with the code of ``createKey(_:authorizedBy:)``, as an object of a session that
    /// needs no login.
    private func rehearseCreation(
        _ snapshot: TokenSnapshot
    ) async throws(KeystoreError) -> CreationCheck.Rehearsal {
        let module = snapshot.module
        guard !uri.namesKey else { return .notTried("the key is used when it is adopted") }
        guard module.generator == .user else {
            return .notTried("it requires the security officer's PIN or the management key")
        }
        // Such a module may store the key all the same.
        guard module.deletesKeys else { return .notTried("it requires the PIN") }
        do throws(CryptokiError) {
            try await snapshot.token.withSession { (session) throws(CryptokiError) in
                try session.rehearse(.sign)
            }
            return .passed
        } catch {
            let refusals: [ReturnValue] = [
                .attributeTypeInvalid, .attributeValueInvalid, .templateInconsistent,
            ]
            switch error.returnValue {
            case .userNotLoggedIn: return .notTried("it requires the PIN")
            case let value? where error.function == Session.generation && refusals.contains(value):
                return .refused(error.description)
            default: break
            }
            switch error.kind {
            case .loginNeeded: return .notTried("it requires the PIN")
            case .keyAbsent: return .notTried("the token shows new keys only after a login")
            // A login may show it.
            case .publicHalfHidden: return .refused(error.reason)
            default: throw KeystoreError(error, profile: module)
            }
        }
    }

    /// Creates and uses the key that seals secrets, if the creation of keys was rehearsed too.
    private func sealingFailure(
        _ snapshot: TokenSnapshot, _ rehearsal: CreationCheck.Rehearsal
    ) async -> KeystoreError? {
        do throws(KeystoreError) {
            guard let establishment = try await keyEstablishment(on: snapshot) else {
                throw .noKeyEstablishment
            }
            guard rehearsal == .passed else { return nil }
            try await agreementSnapshot(snapshot).token.inspect { (session) throws(CryptokiError) in
                try session.rehearse(establishment == .agreement ? .derive : .signRSA)
            }
            return nil
        } catch {
            return error.during("seal a secret")
        }
    }
}

extension Session {
    /// Generates a key that the token does not store and that needs no login, and tests it. It ends
    /// with the session; a module that stored it all the same deletes it.
    fileprivate func rehearse(_ use: KeyPairRequest.Use) throws(CryptokiError) {
        guard writing == .ok else { throw CryptokiError(writing, from: "C_OpenSession") }
        var pair = KeyPairRequest(
            id: SecretBytes.random(count: 16).withUnsafeBytes { Data($0) }, label: "Latchkey",
            use: use, isPrivate: false, alwaysAuthenticates: false)
        pair.isStored = false
        var id = pair.id
        if use == .signRSA {
            let key = try generateRSAKeyPair(pair)
            try destroyingOnError(id) { () throws(CryptokiError) in
                _ = try signature(of: pair.id, with: key)
            }
        } else {
            id = try generateTestedKey(pair, nil).key.id
        }
        try reopen(keepingLogin: false)
        guard try isOccupied(id: id) else { return }
        try destroyKey(id: id)
        guard try !isOccupied(id: id) else {
            throw CryptokiError(
                .unsupported,
                reason: "the token stored a key that it should not store (CKA_TOKEN)"
            ).leaving(id.hexadecimal)
        }
    }
}
