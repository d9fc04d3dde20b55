import Latchkey
import LatchkeyServices
import LatchkeyTPM

/// The checks of the TPM's count of wrong PINs, and of the password that ends a lockout.
extension Diagnostics {
    func lockout(_ diagnosis: TPMDiagnosis) -> Check {
        let status = diagnosis.pinStatus
        guard !status.isLockedOut else {
            let until =
                status.lockedOutUntil.map { " until \(LocalTime.text($0)) at the latest" } ?? ""
            return .warning(
                "lockout",
                "The TPM is locked\(until) after too many wrong PINs or power cuts. During the lockout, keys and vaults"
                    + " with a PIN cannot be used, and vaults with biometrics and revocable keys cannot be created.",
                advice: endOfLockout(diagnosis) + " Keys without a PIN still work.")
        }
        guard let left = status.attemptsLeft else {
            return .warning(
                "lockout", "The TPM does not count wrong PINs.", advice: limitAdvice)
        }
        guard status.guessesPerDay < Self.shortPINs else {
            return .warning(
                "lockout",
                "The TPM accepts about \(status.guessesPerDay) wrong PINs a day: all PINs of 4 digits can be tried.",
                advice: limitAdvice)
        }
        return .ok(
            "lockout", "The TPM locks after \(left) more wrong \(left == 1 ? "PIN" : "PINs").")
    }

    private func endOfLockout(_ diagnosis: TPMDiagnosis) -> String {
        let wait = "Leave the machine on and wait"
        guard diagnosis.lockoutPasswordBlock == nil else { return "\(wait)." }
        let password =
            diagnosis.isLockoutPasswordSet
            ? " --auth file:- (type the lockout password, then Return and Ctrl-D)." : "."
        return
            "\(wait), or end the lockout: sudo tpm2_dictionarylockout --clear-lockout\(tctiOption)\(password)"
    }

    /// The password that ends a lockout and clears the TPM.
    func lockoutPassword(_ diagnosis: TPMDiagnosis) -> Check {
        let name = "lockout-password"
        if let seconds = diagnosis.lockoutPasswordBlock {
            let end =
                seconds == 0
                ? "until the machine restarts"
                : "for at most \(seconds) seconds in which the machine is on"
            return .warning(
                name,
                "The TPM refuses its lockout password after a wrong one, also the right one, \(end).",
                advice: seconds == 0
                    ? "Restart the machine before you use the password."
                    : "Leave the machine on, and use the password later.")
        }
        guard diagnosis.isLockoutPasswordSet else {
            return .warning(
                name,
                "The TPM's lockout password is empty: every user of the TPM can reset the counter of wrong PINs. A new PIN "
                    + "requires at least \(TPMKeystore.minimumPINCharacters) characters.",
                advice: "Ask an administrator to set the password; end it with Return and Ctrl-D: "
                    + TPMDiagnosis.lockoutPasswordCommand + tctiOption)
        }
        return .ok(name, "The TPM's lockout password is set.")
    }

    /// The number of PINs of 4 digits.
    private static let shortPINs = 10_000

    private var limitAdvice: String {
        "Use PINs that are long enough to resist guessing, or ask an administrator to set a limit; end the lockout "
            + "password with Return and Ctrl-D: " + TPMDiagnosis.limitCommand + tctiOption
    }
}

extension PINStatus {
    /// The number of wrong PINs that a TPM accepts in a day, without a right one; none if it never
    /// locks, see ``attemptsLeft``.
    fileprivate var guessesPerDay: Int {
        guard let attemptLimit, let recoverySeconds, recoverySeconds > 0 else { return 0 }
        return attemptLimit + 86_400 / recoverySeconds
    }
}
