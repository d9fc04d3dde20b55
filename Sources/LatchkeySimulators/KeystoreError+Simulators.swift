internal import Latchkey

extension KeystoreError {
    static func missingProgram(_ program: String) -> KeystoreError {
        unavailable(
            "start a simulator", "\(program) can't be run",
            recovery: "Install \(program); scripts/setup brings all that simulators need.")
    }

    static func readerFailed(_ reason: String, recovery: String, text: String = "") -> KeystoreError {
        unavailable("start a virtual smart card reader", reason, recovery: recovery, said: text, by: "pcscd")
    }

    static func simulatorFailed(_ reason: String, text: String = "") -> KeystoreError {
        unavailable(
            "start a software TPM", reason,
            recovery: "See that swtpm works here, and that TMPDIR is a short path that you may write to.",
            said: text, by: "swtpm")
    }

    static func fingerprintReaderFailed(_ reason: String, text: String = "") -> KeystoreError {
        unavailable(
            "use a virtual fingerprint reader", reason,
            recovery: "See that dbus-daemon, fprintd and python3-dbusmock work here, and that TMPDIR is a short path.",
            said: text, by: "fprintd")
    }

    static func softwareTokenFailed(_ reason: String, text: String = "") -> KeystoreError {
        unavailable(
            "make a software token", reason,
            recovery: "Install the package softhsm2 (scripts/setup does), and see that TMPDIR is yours to write to.",
            said: text, by: "softhsm2")
    }

    static func messageBusFailed(_ reason: String, text: String = "") -> KeystoreError {
        unavailable(
            "use a message bus of its own", reason,
            recovery: "See that dbus-daemon and gdbus work here, and that TMPDIR is a short path.", said: text,
            by: "dbus")
    }

    static func softwareTPMTokenFailed(_ reason: String, text: String = "") -> KeystoreError {
        unavailable(
            "make a token in a software TPM", reason,
            recovery: "See that swtpm, tpm2-abrmd, tpm2-pkcs11 and pkcs11-tool work here.", said: text,
            by: "tpm2-pkcs11")
    }

    /// - Parameters:
    ///   - text: What the program said; empty when it said nothing.
    ///   - program: Which one.
    private static func unavailable(
        _ operation: String, _ reason: String, recovery: String, said text: String = "", by program: String = ""
    ) -> KeystoreError {
        KeystoreError(
            operation: operation, code: .unavailable, reason: reason, recovery: recovery,
            underlying: text.isEmpty ? nil : Underlying(layer: program, text: text))
    }
}
