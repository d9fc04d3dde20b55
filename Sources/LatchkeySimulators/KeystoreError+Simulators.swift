internal import Latchkey

extension KeystoreError {
    static func missingProgram(_ program: String) -> KeystoreError {
        KeystoreError(
            operation: "start a simulator", code: .unavailable, reason: "\(program) can't be run",
            recovery: "Install \(program); scripts/setup brings all that simulators need.")
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

    static func fingerprintReaderFailed(_ reason: String, text: String = "") -> KeystoreError {
        KeystoreError(
            operation: "use a virtual fingerprint reader", code: .unavailable, reason: reason,
            recovery: "See that dbus-daemon, fprintd and python3-dbusmock work here, and that TMPDIR is a short path.",
            underlying: text.isEmpty ? nil : KeystoreError.Underlying(layer: "fprintd", text: text))
    }

    static func softwareTokenFailed(_ reason: String, text: String = "") -> KeystoreError {
        KeystoreError(
            operation: "make a software token", code: .unavailable, reason: reason,
            recovery: "Install the package softhsm2 (scripts/setup does), and see that TMPDIR is yours to write to.",
            underlying: text.isEmpty ? nil : KeystoreError.Underlying(layer: "softhsm2", text: text))
    }

    static func messageBusFailed(_ reason: String, text: String = "") -> KeystoreError {
        KeystoreError(
            operation: "use a message bus of its own", code: .unavailable, reason: reason,
            recovery: "See that dbus-daemon and gdbus work here, and that TMPDIR is a short path.",
            underlying: text.isEmpty ? nil : KeystoreError.Underlying(layer: "dbus", text: text))
    }

    static func softwareTPMTokenFailed(_ reason: String, text: String = "") -> KeystoreError {
        KeystoreError(
            operation: "make a token in a software TPM", code: .unavailable, reason: reason,
            recovery: "See that swtpm, tpm2-abrmd, tpm2-pkcs11 and pkcs11-tool work here.",
            underlying: text.isEmpty ? nil : KeystoreError.Underlying(layer: "tpm2-pkcs11", text: text))
    }
}
