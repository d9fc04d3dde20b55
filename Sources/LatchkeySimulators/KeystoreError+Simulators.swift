internal import FoundationEssentials
internal import Latchkey

/// A simulator, for its errors.
enum Simulator {
    case tpm, token, tpmToken, cardReader, fingerprintReader, messageBus

    /// The first of the paths at which Linux distributions install a file of the simulator.
    func installedFile(_ paths: [String]) throws(KeystoreError) -> String {
        guard let path = paths.first(where: { FileManager.default.fileExists(atPath: $0) }) else {
            throw .failed(self, "none of these files exists: \(paths.joined(separator: ", "))")
        }
        return path
    }

    fileprivate var texts: (operation: String, program: String, recovery: String) {
        switch self {
        case .tpm:
            (
                "start a software TPM", "swtpm",
                "Check that swtpm runs and that TMPDIR is a short, writable path."
            )
        case .token:
            (
                "make a software token", "softhsm2",
                "Install the package softhsm2 or run scripts/setup, and check that TMPDIR is writable."
            )
        case .tpmToken:
            (
                "make a token in a software TPM", "tpm2-pkcs11",
                "Check that swtpm, tpm2-abrmd, tpm2-pkcs11 and pkcs11-tool run."
            )
        case .cardReader:
            ("start a virtual smart card reader", "pcscd", "Check that pcscd runs on this machine.")
        case .fingerprintReader:
            (
                "use a virtual fingerprint reader", "fprintd",
                "Check that dbus-daemon, fprintd and python3-dbusmock run and that TMPDIR is a short path."
            )
        case .messageBus:
            (
                "start a message bus", "dbus", "Check that dbus-daemon and gdbus run and that TMPDIR is a short path."
            )
        }
    }
}

extension KeystoreError {
    static func missingProgram(_ program: String) -> KeystoreError {
        KeystoreError(
            operation: "start a simulator", code: .unavailable, reason: "\(program) cannot be run",
            recovery: "Install \(program), or run scripts/setup, which installs the programs of all simulators.")
    }

    /// - Parameters:
    ///   - recovery: By default that of the simulator.
    ///   - text: The output of the simulator's program.
    static func failed(
        _ simulator: Simulator, _ reason: String, recovery: String? = nil, text: String = ""
    ) -> KeystoreError {
        let texts = simulator.texts
        return KeystoreError(
            operation: texts.operation, code: .unavailable, reason: reason, recovery: recovery ?? texts.recovery,
            underlying: text.isEmpty ? nil : Underlying(layer: texts.program, text: text))
    }
}
