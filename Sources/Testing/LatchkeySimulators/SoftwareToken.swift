internal import FoundationEssentials
public import Latchkey

/// A software PKCS#11 token of SoftHSM2.
///
/// For development, tests and continuous integration. It behaves like a token but does not protect
/// keys: a process that can read its directory can read them. Keys in it have the assurance
/// `simulated(softhsm)`. It does not count wrong PINs.
///
/// ```swift
/// let token = try await SoftwareToken(label: "work")
/// let keystore = try PKCS11Keystore(uri: token.uri)
/// ```
///
/// SoftHSM2 finds its token directory through an environment variable, so a process normally sees
/// one directory. Here each token has its own directory and its own copy of the module, which reads
/// its own variable, so that one process can use many tokens (``Placement/thisProcess``). Start
/// child processes with ``environment``.
public final class SoftwareToken: Sendable {
    /// The processes that can use the token.
    public enum Placement: Sendable {
        /// This process, through ``SoftwareToken/modulePath``, and child processes with
        /// ``SoftwareToken/environment``.
        ///
        /// Sets a variable `SOFTHSM2_0000` … in this process; later tokens reuse it.
        case thisProcess
        /// Only child processes with ``SoftwareToken/environment``.
        case ownDirectory
    }

    /// The token's label, at most 32 bytes.
    public let label: String
    /// The token's serial number, 16 hexadecimal digits.
    public let serial: String
    /// The PIN for private keys, 4 to 255 bytes.
    public let userPIN: String
    /// The PIN of the token's security officer. The security officer can set the user PIN.
    public let securityOfficerPIN: String
    /// The path of the PKCS#11 module.
    public let modulePath: String
    /// The variables with which a child process finds the token, through ``modulePath`` or the
    /// installed module.
    public let environment: [String: String]

    private let directory: TemporaryDirectory
    private let variable: SoftwareTokenVariable?

    /// Creates a token. Its files are removed when the object is released.
    ///
    /// - Throws: `KeystoreError` with code `unavailable` if SoftHSM2 is not installed or fails.
    public init(
        label: String = "Latchkey", userPIN: String = "123456",
        securityOfficerPIN: String = "12345678",
        placement: Placement = .thisProcess
    ) async throws(KeystoreError) {
        directory = try TemporaryDirectory()
        self.label = label
        self.userPIN = userPIN
        self.securityOfficerPIN = securityOfficerPIN
        let store = try SoftwareTokenStore(directory: directory.path)
        serial = try await store.makeToken(
            label: label, userPIN: userPIN, securityOfficerPIN: securityOfficerPIN)
        switch placement {
        case .ownDirectory:
            modulePath = try SoftwareTokenModule.installed
            environment = store.environment
            variable = nil
        case .thisProcess:
            let variable = try SoftwareTokenVariable()
            self.variable = variable
            try store.writeConfiguration(to: variable.path)
            modulePath = directory.path(of: "libsofthsm2.so")
            try SoftwareTokenModule.copy(to: modulePath, readingVariable: variable.name)
            environment = store.environment.merging([variable.name: variable.path]) { $1 }
        }
    }

    /// The token as an RFC 7512 URI: its label, its serial number and the module.
    public var uri: String { uri(through: modulePath) }

    /// The token as an RFC 7512 URI for another module that uses ``modulePath``.
    package func uri(through module: String) -> String {
        "pkcs11:token=\(escaped(label));serial=\(serial)?module-path=\(escaped(module))"
    }

    /// Encodes all characters except `/` and the unreserved ones of RFC 3986 as `%XX`.
    private func escaped(_ text: String) -> String {
        text.utf8.map { byte in
            let scalar = Unicode.Scalar(byte)
            let isPlain =
                scalar.isASCII && (scalar.properties.isAlphabetic || ("0"..."9").contains(scalar))
            let hexadecimal = String(byte, radix: 16, uppercase: true)
            return isPlain || "-._~/".unicodeScalars.contains(scalar)
                ? String(scalar) : "%" + (byte < 16 ? "0" : "") + hexadecimal
        }.joined()
    }
}

/// A copy of SoftHSM2's module for one token.
///
/// The dynamic loader treats it as a separate library. In the copy, the name of the configuration
/// variable, `SOFTHSM2_CONF`, is replaced by another name of the same length. So one process can
/// use many independent tokens, and a module finds its token again after finalization or in a child
/// process.
enum SoftwareTokenModule {
    /// Copies the installed module and makes the copy read the variable `name`, which must have the
    /// same length.
    static func copy(to path: String, readingVariable name: String) throws(KeystoreError) {
        let installed = try installed
        do {
            var bytes = [UInt8](try Data(contentsOf: URL(filePath: installed)))
            guard let range = bytes.firstRange(of: Array(SoftwareTokenStore.variable.utf8)),
                range.count == name.utf8.count
            else { throw KeystoreError.failed(.token, "\(installed) does not read SOFTHSM2_CONF") }
            bytes.replaceSubrange(range, with: name.utf8)
            try Data(bytes).write(to: URL(filePath: path))
        } catch {
            throw (error as? KeystoreError)
                ?? .failed(.token, "its module cannot be copied", text: "\(error)")
        }
    }

    /// The path of the installed module.
    static var installed: String {
        get throws(KeystoreError) {
            try Simulator.token.installedFile([
                "/usr/lib/softhsm/libsofthsm2.so", "/usr/lib64/softhsm/libsofthsm2.so",
                "/usr/lib64/pkcs11/libsofthsm2.so", "/usr/local/lib/softhsm/libsofthsm2.so",
            ])
        }
    }
}
