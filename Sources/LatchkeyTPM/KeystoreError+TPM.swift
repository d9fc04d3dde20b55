internal import FoundationEssentials
internal import Latchkey
internal import TPM2

extension KeystoreError {
    /// What a TPM's answer means for a person, where the place in which it came says nothing more.
    init(_ error: TPMError, during operation: String) {
        let meaning = Self.meaning(of: error)
        self.init(
            operation: operation, code: meaning.code, reason: meaning.reason, recovery: meaning.recovery,
            underlying: Underlying(error))
    }

    static func wrongDevice(_ operation: String, _ reason: String, underlying: TPMError? = nil) -> KeystoreError {
        KeystoreError(
            operation: operation, code: .wrongDevice, reason: reason,
            recovery: "Use the machine on which it was made, or set it up again here; nothing was changed.",
            underlying: underlying.map(Underlying.init))
    }

    static func lockedOut(_ operation: String, _ status: PINStatus, underlying: TPMError? = nil) -> KeystoreError {
        KeystoreError(
            operation: operation, code: .lockedOut, reason: "the TPM takes no PIN after too many wrong ones",
            recovery: Self.waiting(status),
            attemptsLeft: 0, lockedOutUntil: status.lockedOutUntil, underlying: underlying.map(Underlying.init))
    }

    static func wrongPIN(_ operation: String, _ status: PINStatus, underlying: TPMError) -> KeystoreError {
        let (left, recovery) =
            switch status.attemptsLeft {
            case nil: ("", "Try again with the right PIN.")
            case 0: ("; no attempt is left", waiting(status))
            case 1: ("; 1 attempt is left", "Try again with the right PIN.")
            case let attempts?: ("; \(attempts) attempts are left", "Try again with the right PIN.")
            }
        return KeystoreError(
            operation: operation, code: .wrongProof, reason: "the PIN is wrong\(left)", recovery: recovery,
            attemptsLeft: status.attemptsLeft, lockedOutUntil: status.lockedOutUntil,
            underlying: Underlying(underlying))
    }

    static func fingersChanged(_ operation: String, underlying: TPMError? = nil) -> KeystoreError {
        KeystoreError(
            operation: operation, code: .invalidated,
            reason: "the enrolled fingers changed since the key was made, and it died with them",
            recovery: "Delete it and set it up again with the fingers that are enrolled now.",
            underlying: underlying.map(Underlying.init))
    }

    static func takenBack(_ operation: String, underlying: TPMError? = nil) -> KeystoreError {
        KeystoreError(
            operation: operation, code: .invalidated,
            reason: "the key or secret was revoked: the TPM no longer holds it",
            recovery: "Delete it; no copy of it works. Create a new one if you still need it.",
            underlying: underlying.map(Underlying.init))
    }

    private static func waiting(_ status: PINStatus) -> String {
        guard let seconds = status.recoverySeconds else { return "Wait and try again." }
        let until = status.lockedOutUntil.map { ", by \($0.formatted(.iso8601))" } ?? ""
        return "Leave the machine on and try again in at most \(seconds) seconds\(until)."
    }

    private typealias Meaning = (code: Code, reason: String, recovery: String)

    private static func meaning(of error: TPMError) -> Meaning {
        switch error.kind {
        case .transport(let transport): meaning(of: transport, error.reason)
        case .malformed, .forged:
            (
                .unavailable, "the TPM's answer can't be trusted: \(error.reason)",
                "Restart the machine. If it stays, the TPM is broken or somebody is between it and the processor."
            )
        case .unsupported: (.unsupported, error.reason, "Use another TPM.")
        case .response(let code): meaning(of: code)
        }
    }

    private static func meaning(of transport: TPMError.Transport, _ reason: String) -> Meaning {
        switch transport {
        case .absent:
            (
                .unavailable, reason,
                "Switch the TPM (fTPM, PTT) on in the firmware's setup, or name another one with --tcti or LATCHKEY_TCTI."
            )
        case .silent:
            (
                .unavailable, reason,
                "Start the software TPM or the resource manager there, or name another TPM with --tcti or LATCHKEY_TCTI."
            )
        case .forbidden:
            (
                .unavailable, reason,
                "Have an administrator give you access to the device, for example by a udev rule with TAG+=\"uaccess\"."
            )
        case .timeout, .broken: (.transient, reason, "Try again; restart the machine if it stays.")
        }
    }

    private static func meaning(of code: ResponseCode) -> Meaning {
        switch code {
        case .lockout:
            (.lockedOut, "the TPM takes no PIN after too many wrong ones", "Leave the machine on and try again later.")
        case .authFail, .badAuth:
            (.refused, "the TPM refused the authorization", "Have an administrator look at the TPM's passwords.")
        // An error response carries no proof, so it does not show that a key is dead.
        case .authUnavailable, .authType, .policyFail:
            (
                .refused, "the TPM refused the authorization, or an attacker on the bus forged the refusal: \(code)",
                "Try again. If it fails again, delete the key or secret and create it again."
            )
        case .objectMemory, .sessionMemory, .memory, .sessionHandles, .objectHandles, .contextGap:
            (
                .transient, "other programs use all of the TPM's room",
                "Try again; use /dev/tpmrm0, which shares the TPM, where you named another device, or have what others left"
                    + " there flushed (tpm2_flushcontext --transient-object)."
            )
        case .retry, .yielded, .testing, .canceled, .nvRate, .nvUnavailable:
            (.transient, "the TPM is busy", "Try again in a moment.")
        case .initialize, .failure:
            (.unavailable, "the TPM does not work: \(code)", "Restart the machine.")
        case .nvSpace: (.unavailable, "the TPM's memory is full", "Remove persistent objects that nothing needs.")
        case .commandCode, .curve, .symmetric, .scheme:
            (.unsupported, "this TPM lacks what is needed: \(code)", "Use another TPM.")
        default:
            (.failed, "the TPM answered: \(code)", "Run `latchkey doctor` and report what it says.")
        }
    }
}

extension KeystoreError.Underlying {
    init(_ error: TPMError) {
        let layer =
            switch error.kind {
            case .transport: "tcti"
            default: "tpm"
            }
        self.init(layer: layer, rawCode: error.responseCode?.rawValue, text: error.description)
    }
}
