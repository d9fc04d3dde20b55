internal import FoundationEssentials
internal import Latchkey
internal import TPM2

extension KeystoreError {
    /// Explains an error of the TPM without the context of the operation.
    init(_ error: TPMError) {
        let meaning = Self.meaning(of: error)
        self.init(
            code: meaning.code, reason: meaning.reason, recovery: meaning.recovery,
            underlying: UnderlyingError(error))
    }

    /// Runs `body`, which does not use the TPM, and explains its error.
    static func explaining<R>(_ body: () throws(TPMError) -> R) throws(KeystoreError) -> R {
        do { return try body() } catch { throw KeystoreError(error) }
    }

    static func wrongDevice(_ reason: String, underlying: TPMError? = nil) -> KeystoreError {
        KeystoreError(
            code: .wrongDevice, reason: reason,
            recovery:
                "Use the machine that created it. Nothing was changed.",
            underlying: underlying.map(UnderlyingError.init))
    }

    static func lockedOut(_ status: PINStatus, underlying: TPMError? = nil) -> KeystoreError {
        KeystoreError(
            code: .lockedOut,
            reason: "the TPM is locked out after too many wrong PINs or power cuts",
            recovery: Recovery(waiting(status), .endLockout),
            attemptsLeft: 0, lockedOutUntil: status.lockedOutUntil,
            underlying: underlying.map(UnderlyingError.init))
    }

    static func wrongPIN(_ status: PINStatus, underlying: TPMError) -> KeystoreError {
        let left =
            switch status.attemptsLeft {
            case nil: ""
            case 0: "; no attempt is left"
            case 1: "; 1 attempt is left"
            case let attempts?: "; \(attempts) attempts are left"
            }
        return KeystoreError(
            code: .wrongProof, reason: "the PIN is wrong\(left)",
            recovery: status.attemptsLeft == 0
                ? Recovery(waiting(status)) : "Try again with the right PIN.",
            attemptsLeft: status.attemptsLeft, lockedOutUntil: status.lockedOutUntil,
            underlying: UnderlyingError(underlying))
    }

    static func fingersChanged(underlying: TPMError? = nil) -> KeystoreError {
        KeystoreError(
            code: .invalidated,
            reason:
                "the enrolled fingers changed since the key was created, so it can no longer be used",
            recovery: "Delete it and create it again with the currently enrolled fingers.",
            underlying: underlying.map(UnderlyingError.init))
    }

    static func revoked(underlying: TPMError? = nil) -> KeystoreError {
        KeystoreError(
            code: .invalidated, reason: "the key or secret was revoked: the TPM no longer holds it",
            recovery: "Delete it. No copy of it works. Create a new one if you still need it.",
            underlying: underlying.map(UnderlyingError.init))
    }

    private static func waiting(_ status: PINStatus) -> String {
        guard let end = status.lockedOutUntil else { return "Wait and try again." }
        return "Leave the machine on. The lockout ends by \(LocalTime.text(end))."
    }

    private static func meaning(of error: TPMError) -> (
        code: Code, reason: String, recovery: Recovery
    ) {
        let reason = error.reason
        return switch error.kind {
        case .transport(.absent):
            (
                .unavailable, reason,
                Recovery(
                    "Enable the TPM (fTPM, PTT) in the firmware setup, or select another one.",
                    .chooseTPM)
            )
        case .transport(.silent):
            (
                .unavailable, reason,
                Recovery(
                    "Start the software TPM or resource manager that the setting names, or correct the setting.",
                    .chooseTPM)
            )
        case .transport(.forbidden):
            (
                .unavailable, reason,
                "Ask an administrator to add your user to the group of the device or socket, then log in again."
            )
        case .transport(.timeout), .transport(.broken):
            (.transient, reason, "Try again. If it fails again, restart the machine.")
        case .malformed, .forged:
            (
                .unavailable, "the response of the TPM is not valid: \(reason)",
                "Restart the machine. If it fails again, the TPM is defective, or an attacker is on its bus."
            )
        case .unsupported: (.unsupported, reason, "Use another TPM.")
        case .response(let code):
            // The template is always the same.
            if error.command == .createPrimary, case .parameter = code.subject {
                lackingFeature(code)
            } else {
                meaning(of: code)
            }
        }
    }

    private static func usedMemory(_ kind: String, _ option: String) -> (
        code: Code, reason: String, recovery: Recovery
    ) {
        (
            .transient, "other programs use all memory of the TPM",
            Recovery(
                "Try again. Use /dev/tpmrm0, which shares the TPM, if you selected another device, or flush the \(kind) of other"
                    + " programs (tpm2_flushcontext \(option)).")
        )
    }

    private static func lackingFeature(_ code: ResponseCode) -> (
        code: Code, reason: String, recovery: Recovery
    ) {
        (.unsupported, "this TPM lacks a required feature: \(code)", "Use another TPM.")
    }

    private static func meaning(of code: ResponseCode) -> (
        code: Code, reason: String, recovery: Recovery
    ) {
        switch code {
        case .lockout:
            (
                .lockedOut, "the TPM is locked out after too many wrong PINs or power cuts",
                "Leave the machine on and try again later."
            )
        case .authFail, .badAuth:
            (
                .refused, "the TPM refused the authorization",
                "Ask an administrator to check the TPM's passwords."
            )
        // An error response is not authenticated, so it does not prove that a key is invalid.
        case .authUnavailable, .authType, .policyFail:
            (
                .unavailable,
                "the TPM refused the authorization, or an attacker on the bus forged the refusal: \(code)",
                "Try again. If it fails again, delete the key or secret and create it again."
            )
        case .objectMemory, .memory, .objectHandles:
            usedMemory("objects", "--transient-object")
        case .sessionMemory, .sessionHandles: usedMemory("sessions", "--loaded-session")
        case .contextGap: usedMemory("sessions", "--saved-session")
        case .retry, .yielded, .testing, .canceled, .nvRate, .nvUnavailable:
            (.transient, "the TPM is busy", "Try again in a moment.")
        case .initialize, .failure, .reboot:
            (.unavailable, "the TPM is not ready: \(code)", "Restart the machine.")
        case .upgrade:
            (
                .unavailable, "the TPM is not ready: \(code)",
                "Complete the update of the TPM's firmware, then restart the machine."
            )
        case .hierarchy:
            (
                .unavailable, "a hierarchy of the TPM is disabled: \(code)",
                "Enable the TPM's storage and endorsement hierarchies in the firmware setup, then restart the machine."
            )
        case .nvSpace:
            (.unavailable, "the TPM's NV memory is full", "Remove unused persistent objects.")
        case .commandCode, .disabled, .curve, .symmetric, .scheme, .hash, .mode, .asymmetric,
            .keySize, .kdf:
            lackingFeature(code)
        default:
            (
                .failed, "the TPM returned an error: \(code)",
                Recovery("Report this error and the state of the TPM.", .reportDiagnosis)
            )
        }
    }
}

extension UnderlyingError {
    init(_ error: TPMError) {
        let layer =
            if case .transport = error.kind {
                "tcti"
            } else {
                "tpm"
            }
        self.init(layer: layer, rawCode: error.responseCode?.rawValue, text: error.description)
    }
}
