internal import Latchkey

extension PKCS11Keystore {
    /// The error for a failed use of a private key. Reads the token's flags where the answer alone does not say enough, and
    /// reports a rejected PIN to `presence`.
    func explained(
        _ error: CryptokiError, _ snapshot: TokenSnapshot, _ presence: any PresenceAuthority
    ) async -> KeystoreError {
        let meaning = KeystoreError(error, profile: snapshot.module)
        switch error.returnValue {
        case .functionCanceled?, .functionRejected?: return .cancelled("the user declined at the reader")
        case .pinLocked?, .pinIncorrect?, .pinInvalid?, .pinLenRange?: presence.rejected()
        default: return meaning
        }
        guard error.returnValue != .pinLocked, let information = try? await takeSnapshot().information else {
            return meaning
        }
        let status = PINStatus(information)
        guard !status.isLockedOut else { return await lockedPIN(snapshot, underlying: error) }
        return KeystoreError(
            code: .wrongProof,
            reason: snapshot.profile.verifiesUserItself
                ? "the token did not accept the PIN or fingerprint" : "the PIN is wrong",
            recovery: status.attemptsLeft == 1
                ? "One attempt is left before the token locks: check the PIN, then try again."
                : "Try again.",
            attemptsLeft: status.attemptsLeft, underlying: UnderlyingError(error))
    }
}

extension PINStatus {
    /// The PIN status by the token's flags. The only number that they give is "one attempt left".
    init(_ information: TokenInformation) {
        let isLocked = information.flags.contains(.userPINLocked)
        let left: Int? =
            if isLocked { 0 } else if information.flags.contains(.userPINFinalTry) { 1 } else { nil }
        self.init(attemptsLeft: left, attemptLimit: nil, isLockedOut: isLocked)
    }
}
