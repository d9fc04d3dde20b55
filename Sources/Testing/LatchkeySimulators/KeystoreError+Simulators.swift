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

    /// The operation, the program, and what to check.
    fileprivate var texts: (operation: String, program: String, check: String) {
        let path = "TMPDIR is a short, writable path"
        return switch self {
        case .tpm: ("start a software TPM", "swtpm", "swtpm runs and that \(path)")
        case .token:
            (
                "make a software token", "softhsm2",
                "the package softhsm2 is installed and that \(path)"
            )
        case .tpmToken:
            ("make a token in a software TPM", "tpm2-pkcs11", "tpm2-abrmd and pkcs11-tool run")
        case .cardReader:
            ("start a virtual smart card reader", "pcscd", "pcscd runs on this machine")
        case .fingerprintReader:
            (
                "use a virtual fingerprint reader", "fprintd",
                "fprintd and python3-dbusmock run and that \(path)"
            )
        case .messageBus:
            ("start a message bus", "dbus", "dbus-daemon and gdbus run and that \(path)")
        }
    }
}

extension KeystoreError {
    static func missingProgram(_ program: String) -> KeystoreError {
        KeystoreError(
            operation: "start a simulator", code: .unavailable, reason: "\(program) cannot be run",
            recovery:
                "Install \(program), or run scripts/setup, which installs the programs of all simulators."
        )
    }

    /// - Parameters:
    ///   - recovery: By default that of the simulator.
    ///   - text: The output of the simulator's program.
    static func failed(
        _ simulator: Simulator, _ reason: String, recovery: String? = nil, text: String = ""
    ) -> KeystoreError {
        let texts = simulator.texts
        return KeystoreError(
            operation: texts.operation, code: .unavailable, reason: reason,
            recovery: recovery ?? "Check that \(texts.check).",
            underlying: text.isEmpty ? nil : UnderlyingError(layer: texts.program, text: text))
    }
}
