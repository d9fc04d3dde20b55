internal import FoundationEssentials
internal import Glibc
public import Latchkey
internal import LatchkeyPlatform

/// A private software TPM 2.0: an `swtpm` process with its own state and UNIX socket.
///
/// For development, tests and continuous integration. It behaves like a TPM but does not protect
/// keys: a process that can read its state directory can read them. Keys in it have the assurance
/// `simulated(swtpm)`.
///
/// ```swift
/// try await SoftwareTPM.withRunning { tpm in
///     let keystore = TPMKeystore(tcti: tpm.tcti, anchors: MemoryTrustAnchors())
///     …
/// }
/// ```
///
/// An `swtpm` serves **one connection at a time**, and tpm2-tss opens one for each command. The
/// commands of concurrent programs interleave, and the programs share its three object slots. If
/// that matters, use a ``ResourceManager``.
public actor SoftwareTPM {
    /// The state of the TPM before its first start.
    public enum Provisioning: Sendable {
        /// No endorsement key.
        case blank
        /// Endorsement keys (RSA 2048 and ECC P-384) with certificates in NV memory, issued by a
        /// certificate authority for this TPM only. Takes about a second.
        case endorsementCertificate
    }

    /// The TCTI configuration of this TPM for tpm2-tss: `swtpm:path=…`.
    public nonisolated let tcti: String

    /// The password that resets the count of wrong PINs, or nil if none is set, as in most TPMs
    /// from the factory. Without it, keystores reject short PINs.
    public nonisolated let lockoutPassword: String?

    private let directory: TemporaryDirectory
    private var process: ChildProcess?

    /// Creates and starts a TPM.
    ///
    /// It ends, and its state is removed, when the last reference is released. Prefer
    /// ``withRunning(_:_:)``, which waits for the end.
    ///
    /// - Parameter hasLockoutPassword: Whether to set a random ``lockoutPassword``, as an
    ///   administrator should.
    /// - Throws: `KeystoreError` with code `unavailable` if `swtpm` (or `swtpm_setup`, for
    ///   certificates) is not installed or does not answer within five minutes.
    public init(
        _ provisioning: Provisioning = .blank, hasLockoutPassword: Bool = true
    ) async throws(KeystoreError) {
        lockoutPassword =
            hasLockoutPassword ? String(UInt64.random(in: 0 ... .max), radix: 36) : nil
        directory = try TemporaryDirectory()
        tcti = "swtpm:path=\(directory.path(of: Self.socketName))"
        guard controlPath.utf8.count <= UNIXSocketAddress.maximumPathBytes else {
            throw .failed(
                .tpm,
                "the path of its socket would have more than \(UNIXSocketAddress.maximumPathBytes) bytes"
            )
        }
        if provisioning == .endorsementCertificate {
            try await createEndorsementKeys()
        }
        try await start()
        if let lockoutPassword { try await set(lockoutPassword) }
    }

    /// Runs `body` with a running TPM, then ends the TPM and removes its state.
    public static func withRunning<R>(
        _ provisioning: Provisioning = .blank, _ body: (SoftwareTPM) async throws -> R
    ) async throws -> R {
        let tpm = try await SoftwareTPM(provisioning)
        return try await withTeardown({ await tpm.cutPower() }) { try await body(tpm) }
    }

    /// The directory of the TPM's state, with mode 0700. It is removed when this object is
    /// released.
    package nonisolated var stateDirectory: String { directory.path }

    /// The path of the root certificate (PEM) of the endorsement certificates. The file exists only
    /// with ``Provisioning/endorsementCertificate``.
    package nonisolated var rootCertificatePath: String {
        directory.path(of: "ca/swtpm-localca-rootca-cert.pem")
    }

    /// Whether the TPM runs.
    package var isRunning: Bool { process?.isRunning ?? false }

    /// The process ID, or nil if the TPM does not run.
    package var processIdentifier: Int32? { process?.processIdentifier }

    /// Starts the TPM with its earlier state. Does nothing if it runs.
    ///
    /// - Throws: `KeystoreError` with code `unavailable` if it does not answer within five minutes.
    public func start() async throws(KeystoreError) {
        guard !isRunning else { return }
        let process = try await ChildProcess(
            "swtpm",
            arguments: [
                "socket", "--tpm2", "--tpmstate", "dir=\(directory.path)", "--server",
                "type=unixio,path=\(socketPath)", "--ctrl", "type=unixio,path=\(controlPath)",
                "--flags",
                "startup-clear",
            ])
        self.process = process
        var isReady = false
        // swtpm does not report when its socket is ready, so retry.
        await poll {
            let response = await UNIXSocket.exchange(Self.getRandom, with: socketPath, within: 1000)
            isReady = response?.starts(with: Self.randomByteFollows) ?? false
            return isReady || !process.isRunning
        }
        guard isReady else {
            self.process = nil
            let output = await process.end()
            throw .failed(.tpm, "swtpm did not answer", text: output)
        }
    }

    /// Stops the TPM as an operating system does, with TPM2_Shutdown first.
    ///
    /// If a client still holds the connection, the TPM stops without TPM2_Shutdown.
    public func stop() async {
        _ = await UNIXSocket.exchange(Self.shutdown, with: socketPath, within: 1000)
        await end(gracefully: true)
    }

    /// Ends the TPM without a shutdown (SIGKILL). State that is not in NV memory is lost.
    public func cutPower() async {
        await end()
    }

    /// Stops and starts the TPM, as a reboot does. Loaded objects and sessions are lost.
    public func restart() async throws(KeystoreError) {
        await stop()
        try await start()
    }

    private var socketPath: String { directory.path(of: Self.socketName) }

    /// The path of the control channel, as the swtpm TCTI of tpm2-tss derives it.
    private var controlPath: String { "\(socketPath).ctrl" }

    private static let socketName = "sock"

    private func set(_ lockoutPassword: String) async throws(KeystoreError) {
        let password = Array(lockoutPassword.utf8)
        let command = Self.hierarchyChangeAuth + [0, UInt8(password.count)] + password
        let request = [0x80, 0x02, 0, 0, 0, UInt8(command.count + 6)] + command
        let response = await UNIXSocket.exchange(
            request, with: socketPath, within: Int32(hangLimit / .milliseconds(1)))
        guard response?.dropFirst(6).prefix(4) == [0, 0, 0, 0] else {
            throw .failed(.tpm, "swtpm did not accept a lockout password")
        }
    }

    private func end(gracefully isGraceful: Bool = false) async {
        guard let process else { return }
        self.process = nil
        await process.end(gracefully: isGraceful)
    }

    /// TPM2_HierarchyChangeAuth for TPM_RH_LOCKOUT with the empty password (TPM 2.0 Part 3 section
    /// 24.8), up to the new password.
    private static let hierarchyChangeAuth: [UInt8] = [
        0, 0, 0x01, 0x29, 0x40, 0, 0, 0x0A, 0, 0, 0, 9, 0x40, 0, 0, 0x09, 0, 0, 0, 0, 0,
    ]
    /// TPM2_GetRandom for one byte (TPM 2.0 Part 3 section 16.1).
    private static let getRandom: [UInt8] = [0x80, 0x01, 0, 0, 0, 12, 0, 0, 0x01, 0x7B, 0, 1]
    /// The header of its response: no sessions, 13 bytes, success.
    private static let randomByteFollows: [UInt8] = [0x80, 0x01, 0, 0, 0, 13, 0, 0, 0, 0]
    /// TPM2_Shutdown with TPM_SU_CLEAR (TPM 2.0 Part 3 section 9.4).
    private static let shutdown: [UInt8] = [0x80, 0x01, 0, 0, 0, 12, 0, 0, 0x01, 0x45, 0, 0]
}

extension SoftwareTPM {
    /// Creates endorsement keys and certificates before the first start.
    ///
    /// It uses `swtpm_setup` with a certificate authority in the TPM's directory, so it needs
    /// neither root nor `/var/lib/swtpm-localca`.
    private func createEndorsementKeys() async throws(KeystoreError) {
        let authority = directory.path(of: "ca")
        let files = [
            directory.path(of: "setup.conf"): """
            create_certs_tool = swtpm_localca
            create_certs_tool_config = \(authority)/localca.conf
            create_certs_tool_options = \(authority)/localca.options
            active_pcr_banks = sha256

            """,
            "\(authority)/localca.conf": """
            statedir = \(authority)
            signingkey = \(authority)/signkey.pem
            issuercert = \(authority)/issuercert.pem
            certserial = \(authority)/certserial

            """,
            "\(authority)/localca.options": """
            --platform-manufacturer Latchkey
            --platform-version 1
            --platform-model Simulator

            """,
        ]
        do {
            try FileManager.default.createDirectory(
                atPath: authority, withIntermediateDirectories: false,
                attributes: [.posixPermissions: 0o700])
            for (path, text) in files { try Data(text.utf8).write(to: URL(filePath: path)) }
        } catch {
            throw .failed(.tpm, "its configuration cannot be written", text: "\(error)")
        }
        let arguments = [
            "--tpm2", "--tpmstate", directory.path, "--create-ek-cert", "--ecc",
            "--config", directory.path(of: "setup.conf"),
        ]
        // As root, swtpm_setup would switch to the user tss, which has no access to the directory.
        // Other users may not use the option.
        let asRoot = geteuid() == 0 ? ["--runas", "root"] : []
        let result = try await HelperProgram.run("swtpm_setup", arguments + asRoot)
        guard result.isSuccess else { throw .failed(.tpm, "swtpm_setup failed", text: result.text) }
    }
}
