internal import Latchkey

extension PKCS11Keystore {
    /// The error for a failed use of a private key. Reads the token's flags where the answer alone
    /// does not say enough, and reports a rejected PIN to `presence`.
    func explained(
        _ error: CryptokiError, _ snapshot: TokenSnapshot, _ presence: any PresenceAuthority
    ) async -> KeystoreError {
        let meaning = KeystoreError(error, profile: snapshot.module)
        switch error.returnValue {
        case .functionCanceled?, .functionRejected?:
            return .cancelled("the user declined at the reader")
        case .pinLocked?, .pinIncorrect?, .pinInvalid?, .pinLenRange?: presence.rejected()
        default: return meaning
        }
        guard error.returnValue != .pinLocked else {
            return await lockedPIN(snapshot, underlying: error)
        }
        guard let current = try? await takeSnapshot(),
            let status = try? await pinStatus(current, isPrecise: true)
        else { return meaning }
        guard !status.isLockedOut else { return await lockedPIN(snapshot, underlying: error) }
        return .wrongPIN(
            status, verifiesUserItself: snapshot.profile.verifiesUserItself, underlying: error)
    }

    /// - Parameter isPrecise: Whether to ask a card even if no wrong PIN is known.
    func pinStatus(_ snapshot: TokenSnapshot, isPrecise: Bool) async throws(KeystoreError)
        -> PINStatus
    {
        do {
            return try await snapshot.token.pinStatus(
                snapshot.information, snapshot.profile.pinCounter, isPrecise: isPrecise)
        } catch {
            throw KeystoreError(error, profile: snapshot.module)
        }
    }
}

extension KeystoreError {
    static func wrongPIN(
        _ status: PINStatus, verifiesUserItself: Bool = false, underlying: CryptokiError
    ) -> KeystoreError {
        let reason =
            verifiesUserItself
            ? "the token did not accept the PIN or fingerprint" : "the PIN is wrong"
        let (left, recovery) =
            switch status.attemptsLeft {
            case 1:
                (
                    "; 1 attempt is left",
                    "Check the PIN before you try again: the next wrong one locks the token."
                )
            case let count?: ("; \(count) attempts are left", "Try again with the right PIN.")
            case nil where status.isCountLow:
                ("; few attempts are left", "Check the PIN before you try again.")
            case nil: ("", "Try again.")
            }
        return KeystoreError(
            code: .wrongProof, reason: reason + left, recovery: recovery,
            attemptsLeft: status.attemptsLeft,
            underlying: UnderlyingError(underlying))
    }
}

extension PINStatus {
    /// The PIN status by the token's flags. The only number that they give is "one attempt left".
    init(_ information: TokenInformation) {
        let isLocked = information.flags.contains(.userPINLocked)
        let left: Int? =
            if isLocked { 0 } else if information.flags.contains(.userPINFinalTry) { 1 } else {
                nil
            }
        self.init(attemptsLeft: left, attemptLimit: nil, isLockedOut: isLocked)
        isCountLow = information.flags.contains(.userPINCountLow)
    }
}
