import Latchkey
import LatchkeyPKCS11

extension CommandContext {
    /// The error of a use of the PIN now; nil if the hardware accepts PINs. A command that opens a
    /// browser checks it before, because the user would log in for nothing. Does not prompt.
    func lockout(of keystore: any Keystore) async throws(KeystoreError) -> KeystoreError? {
        let status = try await keystore.pinStatus()
        guard status.isLockedOut else { return nil }
        if let token = keystore as? PKCS11Keystore { return await token.lockedPINError() }
        let until = status.lockedOutUntil.map { " by \(LocalTime.text($0))" } ?? ""
        return KeystoreError(
            code: .lockedOut,
            reason: "the TPM is locked out after too many wrong PINs or power cuts",
            recovery: Recovery(
                "Leave the machine on. The lockout ends\(until.isEmpty ? " later" : until).",
                .endLockout),
            attemptsLeft: 0, lockedOutUntil: status.lockedOutUntil)
    }
}
