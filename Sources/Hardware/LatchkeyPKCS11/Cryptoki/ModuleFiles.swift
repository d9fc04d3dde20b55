internal import FoundationEssentials
internal import Glibc
internal import Latchkey
internal import LatchkeyPlatform

/// The files in which SoftHSM2 or tpm2-pkcs11 keeps its tokens.
///
/// If this user cannot write them, both modules answer only `CKR_GENERAL_ERROR` or
/// `CKR_FUNCTION_FAILED`. ``obstacle(to:serial:)`` finds the cause.
struct ModuleFiles {
    /// A kind of store. Its value is the variable with the path, which the module's file contains.
    private enum Store: String, CaseIterable {
        case softhsm = "SOFTHSM2_CONF"
        case tpm2 = "TPM2_PKCS11_STORE"

        /// The functions that fail if the files cannot be written. SoftHSM2 notes each login of a
        /// user in its file, and refuses a second one after a failure. tpm2-pkcs11 creates a file
        /// when it is initialized.
        var writingFunctions: Set<String> {
            let writing: Set = [
                Session.generation, "C_DestroyObject", "C_SetPIN", "C_InitPIN", "C_InitToken",
            ]
            return writing.union([self == .softhsm ? "C_Login" : "C_Initialize"])
        }
    }

    private let store: Store
    private let environment: [String: String]

    /// - Parameter path: The module's file.
    /// - Returns: nil for a module of another kind.
    init?(of path: String, options: TokenOptions) {
        guard let store = Store.allCases.first(where: { SharedObject.file(path, has: $0.rawValue) })
        else { return nil }
        self.store = store
        let own = ProcessInfo.processInfo.environment
        environment =
            options.isolation == .never ? own : own.merging(options.environment) { $1 }
    }

    /// The error for a function that fails, or would fail, because this user cannot write a file.
    ///
    /// - Parameter serial: The token's serial number; nil for the place of new tokens.
    /// - Returns: nil if the files can be written, and for a function that does not write.
    func obstacle(to function: String?, serial: String?) -> CryptokiError? {
        guard let function, store.writingFunctions.contains(function) else { return nil }
        for path in paths(serial) where faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0 {
            let error = SystemError.last
            guard [EACCES, EROFS, EPERM].contains(error.number) else { continue }
            return CryptokiError(
                .unwritable, function: function,
                reason: "the token's files cannot be written: \(path): \(error)")
        }
        return nil
    }

    private func paths(_ serial: String?) -> [String] {
        switch store {
        case .softhsm:
            guard let tokens = tokenDirectory() else { return [] }
            guard let serial else { return [tokens] }
            // A token's folder has a UUID as its name, which ends with the serial number.
            let names = (try? FileManager.default.contentsOfDirectory(atPath: tokens)) ?? []
            let folders = names.filter { $0.filter { $0 != "-" }.hasSuffix(serial) }
            return folders.map { "\(tokens)/\($0)" }.flatMap { folder in
                let files = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
                return [folder] + files.sorted().map { "\(folder)/\($0)" }
            }
        case .tpm2:
            let database = "/tpm2_pkcs11.sqlite3"
            let folders = (["/etc/tpm2_pkcs11"] + home("/.tpm2_pkcs11")).filter {
                FileManager.default.fileExists(atPath: $0 + database)
            }
            guard let folder = environment[store.rawValue] ?? folders.first else { return [] }
            return [folder, folder + database]
        }
    }

    /// `directories.tokendir` of SoftHSM2's configuration (softhsm2.conf(5)).
    private func tokenDirectory() -> String? {
        let places = home("/.config/softhsm2/softhsm2.conf") + ["/etc/softhsm/softhsm2.conf"]
        let present = places.filter { FileManager.default.fileExists(atPath: $0) }
        guard let path = environment[store.rawValue] ?? present.first,
            let text = try? String(contentsOfFile: path, encoding: .utf8)
        else { return nil }
        for line in text.split(separator: "\n") {
            let parts = line.split(separator: "=", maxSplits: 1)
            guard parts.count == 2, parts[0].filter({ !$0.isWhitespace }) == "directories.tokendir"
            else { continue }
            return parts[1].trimmingPrefix { $0.isWhitespace }.description
        }
        return nil
    }

    private func home(_ path: String) -> [String] { environment["HOME"].map { [$0 + path] } ?? [] }
}
