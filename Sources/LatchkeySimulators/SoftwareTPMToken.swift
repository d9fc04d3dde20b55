internal import FoundationEssentials
public import Latchkey

/// A PKCS#11 token in a software TPM: tpm2-pkcs11 over a ``SoftwareTPM``, with a resource manager between, since
/// tpm2-pkcs11 leaves objects loaded that a bare TPM has no room for.
///
/// It is a token with a PIN that hardware counts (the TPM's guard against dictionary attacks, which the token does not
/// tell of), without key agreement but with RSA, and with a serial number that is all zeros: its label names it.
///
/// tpm2-pkcs11 finds store and TPM through variables of the whole process: use it in a process that was given
/// ``environment``.
///
/// ```swift
/// try await SoftwareTPMToken.withToken { token in
///     let options = TokenOptions(isolation: .always, environment: token.environment)
///     let keystore = try PKCS11Keystore(uri: token.uri, options: PKCS11Options(token: options))
///     …
/// }
/// ```
public actor SoftwareTPMToken {
    /// The token's label.
    public nonisolated let label = "Chip"
    /// The PIN that opens private keys.
    public nonisolated let userPIN = "123456"
    /// The PIN of the token's security officer.
    public nonisolated let securityOfficerPIN = "12345678"
    /// The module to load.
    public nonisolated let modulePath: String
    /// What a process needs in its environment to find the token, and to be spared the TPM stack's messages.
    public nonisolated let environment: [String: String]

    private let directory: TemporaryDirectory
    private let tpm: SoftwareTPM
    private let bus: MessageBus
    private let manager: ChildProcess

    /// Makes a TPM and a token in it. Prefer ``withToken(_:)``, which also waits for the end.
    ///
    /// - Throws: `KeystoreError` with code `unavailable` when a program is not installed or does not answer.
    public init() async throws(KeystoreError) {
        modulePath = try Self.installedModule
        directory = try TemporaryDirectory()
        tpm = try await SoftwareTPM()
        bus = try await MessageBus(in: directory)
        environment = bus.environment.merging([
            "TPM2_PKCS11_STORE": directory.path,
            "TPM2_PKCS11_TCTI": "tabrmd:bus_type=system",
            "TSS2_LOG": "all+NONE",
            "TPM2_PKCS11_LOG_LEVEL": "0",
        ]) { $1 }
        manager = try await ChildProcess(
            "tpm2-abrmd", arguments: ["--allow-root", "--tcti=\(tpm.tcti)"], environment: bus.environment)
        try await bus.wait(for: "com.intel.tss2.Tabrmd", within: .seconds(10))
        try await run("--slot-index", "0", "--init-token", "--label", label, "--so-pin", securityOfficerPIN)
        try await run("--token-label", label, "--init-pin", "--so-pin", securityOfficerPIN, "--pin", userPIN)
    }

    /// Lends a token to `body` and ends everything afterwards.
    public static func withToken<R>(_ body: (SoftwareTPMToken) async throws -> R) async throws -> R {
        let token = try await SoftwareTPMToken()
        do {
            let result = try await body(token)
            await token.end()
            return result
        } catch {
            await token.end()
            throw error
        }
    }

    /// The token as an RFC 7512 URI: its label and the module.
    public nonisolated var uri: String { "pkcs11:token=\(label)?module-path=\(modulePath)" }

    /// Ends everything and returns when it is gone.
    public func end() async {
        await manager.end(by: .kill)
        await bus.end()
        await tpm.cutPower()
    }

    private func run(_ arguments: String...) async throws(KeystoreError) {
        let result = try await HelperProgram.run(
            "pkcs11-tool", ["--module", modulePath] + arguments, environment: environment, within: .seconds(20))
        guard result.isSuccess else { throw .softwareTPMTokenFailed("pkcs11-tool failed", text: result.text) }
    }

    /// Where distributions put tpm2-pkcs11's module.
    private static let places = [
        "/usr/lib/x86_64-linux-gnu/pkcs11/libtpm2_pkcs11.so", "/usr/lib/aarch64-linux-gnu/pkcs11/libtpm2_pkcs11.so",
        "/usr/lib64/pkcs11/libtpm2_pkcs11.so", "/usr/lib/pkcs11/libtpm2_pkcs11.so",
    ]

    private static var installedModule: String {
        get throws(KeystoreError) {
            guard let path = places.first(where: { FileManager.default.fileExists(atPath: $0) }) else {
                throw .softwareTPMTokenFailed("libtpm2_pkcs11.so is in none of \(places.joined(separator: ", "))")
            }
            return path
        }
    }
}
