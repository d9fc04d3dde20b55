internal import Latchkey

extension KeystoreError {
    static func missingProgram(_ program: String) -> KeystoreError {
        unavailable(
            "start a simulator", "\(program) cannot be run",
            recovery: "Install \(program), or run scripts/setup, which installs the programs of all simulators.")
    }

    static func readerFailed(_ reason: String, recovery: String, text: String = "") -> KeystoreError {
        unavailable("start a virtual smart card reader", reason, recovery: recovery, said: text, by: "pcscd")
    }

    static func simulatorFailed(_ reason: String, text: String = "") -> KeystoreError {
        unavailable(
            "start a software TPM", reason,
            recovery: "Check that swtpm runs and that TMPDIR is a short, writable path.",
            said: text, by: "swtpm")
    }

    static func fingerprintReaderFailed(_ reason: String, text: String = "") -> KeystoreError {
        unavailable(
            "use a virtual fingerprint reader", reason,
            recovery: "Check that dbus-daemon, fprintd and python3-dbusmock run and that TMPDIR is a short path.",
            said: text, by: "fprintd")
    }

    static func softwareTokenFailed(_ reason: String, text: String = "") -> KeystoreError {
        unavailable(
            "make a software token", reason,
            recovery: "Install the package softhsm2 or run scripts/setup, and check that TMPDIR is writable.",
            said: text, by: "softhsm2")
    }

    static func messageBusFailed(_ reason: String, text: String = "") -> KeystoreError {
        unavailable(
            "start a message bus", reason,
            recovery: "Check that dbus-daemon and gdbus run and that TMPDIR is a short path.", said: text,
            by: "dbus")
    }

    static func softwareTPMTokenFailed(_ reason: String, text: String = "") -> KeystoreError {
        unavailable(
            "make a token in a software TPM", reason,
            recovery: "Check that swtpm, tpm2-abrmd, tpm2-pkcs11 and pkcs11-tool run.", said: text,
            by: "tpm2-pkcs11")
    }

    /// - Parameters:
    ///   - text: The output of the program.
    ///   - program: The program's name.
    private static func unavailable(
        _ operation: String, _ reason: String, recovery: String, said text: String = "", by program: String = ""
    ) -> KeystoreError {
        KeystoreError(
            operation: operation, code: .unavailable, reason: reason, recovery: recovery,
            underlying: text.isEmpty ? nil : Underlying(layer: program, text: text))
    }
}
