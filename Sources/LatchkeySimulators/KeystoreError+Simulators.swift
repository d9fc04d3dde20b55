internal import Latchkey

extension KeystoreError {
    static func missingProgram(_ program: String) -> KeystoreError {
        KeystoreError(
            operation: "start a simulator", code: .unavailable, reason: "\(program) can't be run",
            recovery: "Install what is missing; scripts/setup does.")
    }

    static func readerFailed(_ reason: String, recovery: String, text: String = "") -> KeystoreError {
        KeystoreError(
            operation: "start a virtual smart card reader", code: .unavailable, reason: reason, recovery: recovery,
            underlying: text.isEmpty ? nil : KeystoreError.Underlying(layer: "pcscd", text: text))
    }

    static func simulatorFailed(_ reason: String, text: String = "") -> KeystoreError {
        KeystoreError(
            operation: "start a software TPM", code: .unavailable, reason: reason,
            recovery: "See that swtpm works here, and that TMPDIR is a short path that you may write to.",
            underlying: text.isEmpty ? nil : KeystoreError.Underlying(layer: "swtpm", text: text))
    }

    static func softwareTokenFailed(_ reason: String, text: String = "") -> KeystoreError {
        KeystoreError(
            operation: "make a software token", code: .unavailable, reason: reason,
            recovery: "Install the package softhsm2 (scripts/setup does), and see that TMPDIR is yours to write to.",
            underlying: text.isEmpty ? nil : KeystoreError.Underlying(layer: "softhsm2", text: text))
    }
}
