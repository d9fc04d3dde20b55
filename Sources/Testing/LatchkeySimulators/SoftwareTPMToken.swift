internal import FoundationEssentials
public import Latchkey

/// A PKCS#11 token in a software TPM: tpm2-pkcs11 on a ``SoftwareTPM`` with a ``ResourceManager``,
/// because tpm2-pkcs11 keeps more objects loaded than a TPM has slots for.
///
/// The TPM counts wrong PINs (dictionary attack protection), but the token does not report the
/// count. The token has RSA but no key agreement. Its serial number is all zeros, so use its label.
///
/// tpm2-pkcs11 finds its store and TPM through environment variables. Use it in a process with
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
    /// The PIN for private keys.
    public nonisolated let userPIN = "123456"
    /// The PIN of the token's security officer.
    public nonisolated let securityOfficerPIN = "12345678"
    /// The path of the PKCS#11 module.
    public nonisolated let modulePath: String
    /// The variables with which a process finds the token. They also silence the messages of the
    /// TPM stack.
    public nonisolated let environment: [String: String]

    private let directory: TemporaryDirectory
    private let tpm: SoftwareTPM
    private let bus: MessageBus
    private let manager: ResourceManager

    /// Creates a TPM and a token in it. Prefer ``withToken(_:)``, which waits for the end.
    ///
    /// - Throws: `KeystoreError` with code `unavailable` if a program is not installed or does not
    ///   answer.
    public init() async throws(KeystoreError) {
        modulePath = try Self.installedModule
        directory = try TemporaryDirectory()
        tpm = try await SoftwareTPM()
        bus = try await MessageBus(in: directory)
        environment = bus.environment.merging([
            "TPM2_PKCS11_STORE": directory.path,
            "TPM2_PKCS11_TCTI": ResourceManager.tcti,
            "TSS2_LOG": "all+NONE",
            "TPM2_PKCS11_LOG_LEVEL": "0",
        ]) { $1 }
        manager = try await ResourceManager(tpm, busAddress: bus.address)
        try await run(
            "--slot-index", "0", "--init-token", "--label", label, "--so-pin", securityOfficerPIN)
        try await run(
            "--token-label", label, "--init-pin", "--so-pin", securityOfficerPIN, "--pin", userPIN)
    }

    /// Runs `body` with a token, then ends the token's processes.
    public static func withToken<R>(_ body: (SoftwareTPMToken) async throws -> R) async throws -> R
    {
        let token = try await SoftwareTPMToken()
        return try await withTeardown({ await token.end() }) { try await body(token) }
    }

    /// The token as an RFC 7512 URI: its label and the module.
    public nonisolated var uri: String { "pkcs11:token=\(label)?module-path=\(modulePath)" }

    /// Ends the token's processes and waits for their exit.
    public func end() async {
        await manager.end()
        await bus.end()
        await tpm.cutPower()
    }

    private func run(_ arguments: String...) async throws(KeystoreError) {
        let result = try await HelperProgram.run(
            "pkcs11-tool", ["--module", modulePath] + arguments, environment: environment)
        guard result.isSuccess else {
            throw .failed(.tpmToken, "pkcs11-tool failed", text: result.text)
        }
    }

    private static var installedModule: String {
        get throws(KeystoreError) {
            try Simulator.tpmToken.installedFile([
                "/usr/lib/x86_64-linux-gnu/pkcs11/libtpm2_pkcs11.so",
                "/usr/lib/aarch64-linux-gnu/pkcs11/libtpm2_pkcs11.so",
                "/usr/lib64/pkcs11/libtpm2_pkcs11.so",
                "/usr/lib/pkcs11/libtpm2_pkcs11.so",
            ])
        }
    }
}

/// A resource manager for a software TPM: `tpm2-abrmd` on a given system bus.
///
/// With it, programs share the TPM as if each had its own object and session slots. For a hardware
/// TPM, the kernel has one (`/dev/tpmrm0`).
public actor ResourceManager {
    /// The TCTI configuration for programs on that bus. They take the bus from
    /// `DBUS_SYSTEM_BUS_ADDRESS`.
    public static let tcti = "tabrmd:bus_type=system"
    private static let name = "com.intel.tss2.Tabrmd"

    private let process: ChildProcess

    /// Starts the resource manager.
    ///
    /// - Throws: `KeystoreError` with code `unavailable` if `tpm2-abrmd` is not installed or does
    ///   not answer within five minutes.
    public init(_ tpm: SoftwareTPM, busAddress: String) async throws(KeystoreError) {
        process = try await ChildProcess(
            "tpm2-abrmd", arguments: ["--allow-root", "--tcti=\(tpm.tcti)"],
            environment: ["DBUS_SYSTEM_BUS_ADDRESS": busAddress])
        let result = try await HelperProgram.run(
            "gdbus",
            [
                "wait", "--address", busAddress, "--timeout", "\(hangLimit.components.seconds)",
                Self.name,
            ],
            within: hangLimit + .seconds(10))
        guard result.isSuccess else {
            let output = await process.end()
            throw .failed(.tpm, "tpm2-abrmd did not answer", text: output)
        }
    }

    /// Ends the resource manager. The TPM and the bus stay.
    public func end() async {
        await process.end()
    }
}
