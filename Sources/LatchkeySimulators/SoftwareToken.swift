internal import FoundationEssentials
public import Latchkey

/// A PKCS#11 token in software: one of SoftHSM2's, with a label, a serial number and PINs of its own.
///
/// For development, tests and continuous integration. It does what a token does and protects nothing from whoever can
/// read its directory: keys made in it have the assurance `simulated(softhsm)`. It counts no wrong PINs.
///
/// ```swift
/// let token = try await SoftwareToken(label: "work")
/// let keystore = try PKCS11Keystore(uri: token.uri)
/// ```
///
/// SoftHSM2 finds its tokens through the environment variable `SOFTHSM2_CONF`, and only once, when it is loaded. A
/// process therefore has **one** directory for all its tokens, and each token brings a copy of the module, which is
/// loaded after the token was made and shares nothing with the copies of other tokens. For child processes make a token
/// in a directory of its own (``Placement/ownDirectory``) and pass on its ``environment``.
public final class SoftwareToken: Sendable {
    /// Who is to find the token.
    public enum Placement: Sendable {
        /// This process, and children that inherit its environment. Sets `SOFTHSM2_CONF` of the process the first time.
        case thisProcess
        /// Whoever is given ``SoftwareToken/environment``.
        case ownDirectory
    }

    /// The token's label, at most 32 bytes.
    public let label: String
    /// The token's serial number, 16 hexadecimal digits, which SoftHSM2 chose.
    public let serial: String
    /// The PIN that opens private keys, 4 to 255 bytes.
    public let userPIN: String
    /// The PIN of the token's security officer, who can set the user's.
    public let securityOfficerPIN: String
    /// The module to load.
    public let modulePath: String
    /// What a child process needs in its environment to find the token: `SOFTHSM2_CONF`.
    public let environment: [String: String]

    private let directory: TemporaryDirectory

    /// Makes a token. Its files go when the object goes; those of a token in ``Placement/thisProcess``, which other
    /// modules may be looking at, when the process ends.
    ///
    /// - Throws: ``KeystoreError`` with code `unavailable` when SoftHSM2 is not installed or refuses.
    public init(
        label: String = "Latchkey", userPIN: String = "123456", securityOfficerPIN: String = "12345678",
        placement: Placement = .thisProcess
    ) async throws(KeystoreError) {
        directory = try TemporaryDirectory()
        self.label = label
        self.userPIN = userPIN
        self.securityOfficerPIN = securityOfficerPIN
        let ownStore = try SoftwareTokenStore(directory: directory.path)
        let provisioner = SoftwareTokenProvisioner(store: ownStore)
        serial = try await provisioner.makeToken(
            label: label, userPIN: userPIN, securityOfficerPIN: securityOfficerPIN)
        switch placement {
        case .ownDirectory:
            modulePath = try SoftwareTokenStore.installedModule
            environment = ownStore.environment
        case .thisProcess:
            let shared = try SoftwareTokenStore.ofProcess.get()
            modulePath = try ownStore.copyModule()
            environment = shared.environment
            try ownStore.moveTokens(to: shared)
        }
    }

    /// The token as an RFC 7512 URI: its label, its serial number and the module.
    public var uri: String { uri(through: modulePath) }

    /// The token as an RFC 7512 URI, seen through a module that uses ``modulePath``.
    public func uri(through module: String) -> String {
        "pkcs11:token=\(escaped(label));serial=\(serial)?module-path=\(escaped(module))"
    }

    /// Everything but the unreserved characters of RFC 3986 as `%XX`.
    private func escaped(_ text: String) -> String {
        text.utf8.map { byte in
            let scalar = Unicode.Scalar(byte)
            let isPlain = scalar.isASCII && (scalar.properties.isAlphabetic || ("0"..."9").contains(scalar))
            let hexadecimal = String(byte, radix: 16, uppercase: true)
            return isPlain || "-._~/".unicodeScalars.contains(scalar)
                ? String(scalar) : "%" + (byte < 16 ? "0" : "") + hexadecimal
        }.joined()
    }
}
