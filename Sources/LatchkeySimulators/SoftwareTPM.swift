internal import FoundationEssentials
internal import Glibc
public import Latchkey

/// A private software TPM 2.0: an `swtpm` process with its own state and UNIX socket.
///
/// For development, tests and continuous integration. It behaves like a TPM but does not protect keys: a process that can read
/// its state directory can read them. Keys in it have the assurance `simulated(swtpm)`.
///
/// ```swift
/// try await SoftwareTPM.withRunning { tpm in
///     let keystore = try TPMKeystore(tcti: tpm.tcti)
///     …
/// }
/// ```
///
/// An `swtpm` serves **one connection at a time**, and tpm2-tss opens one for each command. The commands of concurrent programs
/// interleave, and the programs share its three object slots. If that matters, use a ``ResourceManager``.
public actor SoftwareTPM {
    /// The state of the TPM before its first start.
    public enum Provisioning: Sendable {
        /// No endorsement key.
        case blank
        /// Endorsement keys (RSA 2048 and ECC P-384) with certificates in NV memory, issued by a certificate authority for this
        /// TPM only. Takes about a second.
        case endorsementCertificate
    }

    /// The TCTI configuration of this TPM for tpm2-tss: `swtpm:path=…`.
    public nonisolated let tcti: String

    /// The password that resets the count of wrong PINs, or nil if none is set, as in most TPMs from the factory. Without it,
    /// keystores reject short PINs.
    public nonisolated let lockoutPassword: String?

    private let directory: TemporaryDirectory
    private var process: ChildProcess?

    /// Creates and starts a TPM.
    ///
    /// It ends, and its state is removed, when the last reference is released. Prefer ``withRunning(_:_:)``, which waits for the
    /// end.
    ///
    /// - Parameter hasLockoutPassword: Whether to set a random ``lockoutPassword``, as an administrator should.
    /// - Throws: `KeystoreError` with code `unavailable` if `swtpm` (or `swtpm_setup`, for certificates) is not installed or does
    ///   not answer within ten seconds.
    public init(
        _ provisioning: Provisioning = .blank, hasLockoutPassword: Bool = true
    ) async throws(KeystoreError) {
        lockoutPassword = hasLockoutPassword ? String(UInt64.random(in: 0 ... .max), radix: 36) : nil
        directory = try TemporaryDirectory()
        tcti = "swtpm:path=\(directory.path(of: Self.socketName))"
        guard controlPath.utf8.count <= UNIXSocket.maximumPathBytes else {
            throw .simulatorFailed("the path of its socket would have more than \(UNIXSocket.maximumPathBytes) bytes")
        }
        if provisioning == .endorsementCertificate {
            try await EndorsementProvisioner(stateDirectory: directory.path).run()
        }
        try await start()
        if let lockoutPassword { try await set(lockoutPassword) }
    }

    /// Runs `body` with a running TPM, then ends the TPM and removes its state.
    public static func withRunning<R>(
        _ provisioning: Provisioning = .blank, _ body: (SoftwareTPM) async throws -> R
    ) async throws -> R {
        let tpm = try await SoftwareTPM(provisioning)
        do {
            let result = try await body(tpm)
            await tpm.cutPower()
            return result
        } catch {
            await tpm.cutPower()
            throw error
        }
    }

    /// The directory of the TPM's state, with mode 0700. It is removed when this object is released.
    public nonisolated var stateDirectory: String { directory.path }

    /// The path of the root certificate (PEM) of the endorsement certificates. The file exists only with
    /// ``Provisioning/endorsementCertificate``.
    package nonisolated var rootCertificatePath: String { directory.path(of: "ca/swtpm-localca-rootca-cert.pem") }

    /// Whether the TPM runs.
    public var isRunning: Bool { process?.isRunning ?? false }

    /// The process ID, or nil if the TPM does not run.
    package var processIdentifier: Int32? { process?.processIdentifier }

    /// Starts the TPM with its earlier state. Does nothing if it runs.
    ///
    /// - Throws: `KeystoreError` with code `unavailable` if it does not answer within ten seconds.
    public func start() async throws(KeystoreError) {
        guard !isRunning else { return }
        let process = try await ChildProcess("swtpm", arguments: arguments)
        self.process = process
        guard await answers(within: .seconds(10), while: process) else {
            self.process = nil
            let complaint = await process.end(by: .kill)
            throw .simulatorFailed("swtpm did not answer", text: complaint)
        }
    }

    /// Stops the TPM as an operating system does, with TPM2_Shutdown first.
    ///
    /// If a client still holds the connection, the TPM stops without TPM2_Shutdown.
    public func stop() async {
        _ = await UNIXSocket.exchange(Self.shutdown, with: socketPath, within: 1000)
        await end(by: .terminate)
    }

    /// Ends the TPM without a shutdown (SIGKILL). State that is not in NV memory is lost.
    public func cutPower() async {
        await end(by: .kill)
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
        let response = await UNIXSocket.exchange(request, with: socketPath, within: 1000)
        guard response?.dropFirst(6).prefix(4) == [0, 0, 0, 0] else {
            throw .simulatorFailed("swtpm did not accept a lockout password")
        }
    }

    private func end(by ending: ChildProcess.Ending) async {
        guard let process else { return }
        self.process = nil
        await process.end(by: ending)
    }

    private var arguments: [String] {
        [
            "socket", "--tpm2", "--tpmstate", "dir=\(directory.path)",
            "--server", "type=unixio,path=\(socketPath)",
            "--ctrl", "type=unixio,path=\(controlPath)",
            "--flags", "startup-clear",
        ]
    }

    private func answers(within limit: Duration, while process: ChildProcess) async -> Bool {
        let deadline = ContinuousClock.now + limit
        while ContinuousClock.now < deadline, process.isRunning {
            let response = await UNIXSocket.exchange(
                Self.getRandom, with: socketPath, within: 1000)
            if let response, response.starts(with: Self.randomByteFollows) { return true }
            // swtpm does not report when its socket is ready, so retry.
            guard (try? await Task.sleep(for: .milliseconds(3))) != nil else { return false }
        }
        return false
    }

    /// TPM2_HierarchyChangeAuth for TPM_RH_LOCKOUT with the empty password (TPM 2.0 Part 3 section 24.8), up to the new password.
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

/// Creates a software TPM's endorsement keys and certificates before its first start.
///
/// It uses `swtpm_setup` with a certificate authority in the TPM's directory, so it needs neither root nor
/// `/var/lib/swtpm-localca`.
struct EndorsementProvisioner {
    let stateDirectory: String

    func run() async throws(KeystoreError) {
        try writeConfiguration()
        let result = try await HelperProgram.run("swtpm_setup", arguments, within: .seconds(120))
        guard result.isSuccess else { throw .simulatorFailed("swtpm_setup failed", text: result.text) }
    }

    private var arguments: [String] {
        [
            "--tpm2", "--tpmstate", stateDirectory, "--create-ek-cert", "--ecc",
            "--config", "\(stateDirectory)/setup.conf",
        ] + (geteuid() == 0 ? Self.asRoot : [])
    }

    /// As root, swtpm_setup would switch to the user tss, which has no access to the directory. Other users may not use the
    /// option.
    private static let asRoot = ["--runas", "root"]

    private func writeConfiguration() throws(KeystoreError) {
        let authority = "\(stateDirectory)/ca"
        do {
            try FileManager.default.createDirectory(
                atPath: authority, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
            try write(
                """
                create_certs_tool = swtpm_localca
                create_certs_tool_config = \(authority)/localca.conf
                create_certs_tool_options = \(authority)/localca.options
                active_pcr_banks = sha256
                """, to: "\(stateDirectory)/setup.conf")
            try write(
                """
                statedir = \(authority)
                signingkey = \(authority)/signkey.pem
                issuercert = \(authority)/issuercert.pem
                certserial = \(authority)/certserial
                """, to: "\(authority)/localca.conf")
            try write(
                """
                --platform-manufacturer Latchkey
                --platform-version 1
                --platform-model Simulator
                """, to: "\(authority)/localca.options")
        } catch {
            throw .simulatorFailed("its configuration cannot be written", text: "\(error)")
        }
    }

    private func write(_ text: String, to path: String) throws {
        try Data("\(text)\n".utf8).write(to: URL(filePath: path))
    }
}
