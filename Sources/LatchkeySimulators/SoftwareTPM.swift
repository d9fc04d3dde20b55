internal import FoundationEssentials
public import Latchkey

/// A private TPM 2.0 in software: an `swtpm` process with its own state, on its own UNIX socket.
///
/// For development, tests and continuous integration. It does what a TPM does and protects nothing from whoever can
/// read its state directory: keys made in it have the assurance `simulated(swtpm)`.
///
/// ```swift
/// try await SoftwareTPM.withRunning { tpm in
///     let keystore = try TPMKeystore(tcti: tpm.tcti)
///     …
/// }
/// ```
///
/// One `swtpm` serves **one connection at a time**, and tpm2-tss opens one for each command: programs that use it at
/// once interleave, and share its three places for objects. Put a resource manager between where that matters.
public actor SoftwareTPM {
    /// What the TPM has before it is first switched on.
    public enum Provisioning: Sendable {
        /// No endorsement key: a TPM in the state in which it is manufactured. Takes no time.
        case blank
        /// Endorsement keys (RSA 2048 and ECC P-384) and their certificates in NV memory, issued by a certificate
        /// authority made for this TPM alone. Takes about a second.
        case endorsementCertificate
    }

    /// The TCTI configuration string under which tpm2-tss reaches this TPM: `swtpm:path=…`.
    public nonisolated let tcti: String

    /// The password that resets the count of wrong PINs; nil for a TPM without one, as most TPMs are delivered. Keystores
    /// refuse short PINs there.
    public nonisolated let lockoutPassword: String?

    private let directory: TemporaryDirectory
    private var process: ChildProcess?

    /// Makes a TPM and switches it on.
    ///
    /// It ends, and its state is removed, when the last reference goes; prefer ``withRunning(_:_:)``, which also waits
    /// for the end.
    ///
    /// - Parameter hasLockoutPassword: Whether a random ``lockoutPassword`` is set, as an administrator should do.
    /// - Throws: `KeystoreError` with code `unavailable` when `swtpm` (or `swtpm_setup`, for certificates) is not
    ///   installed or does not answer within ten seconds.
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

    /// Lends a running TPM to `body`, ends it afterwards, and removes its state.
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

    /// The directory that holds the TPM's state, mode 0700. It goes when this object goes.
    public nonisolated var stateDirectory: String { directory.path }

    /// The certificate (PEM) at the root of the chain of the endorsement certificates. There is one only with
    /// ``Provisioning/endorsementCertificate``.
    public nonisolated var rootCertificatePath: String { directory.path(of: "ca/swtpm-localca-rootca-cert.pem") }

    /// Whether the process is there.
    public var isRunning: Bool { process?.isRunning ?? false }

    /// The process, while it is there.
    public var processIdentifier: Int32? { process?.processIdentifier }

    /// Switches the TPM on with the state that it had. Does nothing when it is on.
    ///
    /// - Throws: `KeystoreError` with code `unavailable` when it does not answer within ten seconds.
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

    /// Switches the TPM off as an operating system does: TPM2_Shutdown first.
    ///
    /// A client that still holds the connection keeps the shutdown from being said; the power then goes without.
    public func stop() async {
        _ = await UNIXSocket.exchange(Self.shutdown, with: socketPath, within: 1000)
        await end(by: .terminate)
    }

    /// Takes the power away without a word (SIGKILL). What the TPM had not written to NV memory is lost.
    public func cutPower() async {
        await end(by: .kill)
    }

    /// Switches the TPM off and on again, as a reboot does. Everything that was loaded is gone afterwards.
    public func restart() async throws(KeystoreError) {
        await stop()
        try await start()
    }

    private var socketPath: String { directory.path(of: Self.socketName) }

    /// Where the swtpm TCTI of tpm2-tss looks for the control channel: beside the socket, with `.ctrl` at the end.
    private var controlPath: String { "\(socketPath).ctrl" }

    private static let socketName = "sock"

    private func set(_ lockoutPassword: String) async throws(KeystoreError) {
        let password = Array(lockoutPassword.utf8)
        let command = Self.hierarchyChangeAuth + [0, UInt8(password.count)] + password
        let request = [0x80, 0x02, 0, 0, 0, UInt8(command.count + 6)] + command
        let response = await UNIXSocket.exchange(request, with: socketPath, within: 1000)
        guard response?.dropFirst(6).prefix(4) == [0, 0, 0, 0] else {
            throw .simulatorFailed("swtpm did not take a lockout password")
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
            // The process opens its socket when it is ready; nothing tells when but trying.
            guard (try? await Task.sleep(for: .milliseconds(3))) != nil else { return false }
        }
        return false
    }

    /// TPM2_HierarchyChangeAuth of TPM_RH_LOCKOUT, authorized by the empty password (TPM 2.0 Part 3 section 24.8), without
    /// the new password.
    private static let hierarchyChangeAuth: [UInt8] = [
        0, 0, 0x01, 0x29, 0x40, 0, 0, 0x0A, 0, 0, 0, 9, 0x40, 0, 0, 0x09, 0, 0, 0, 0, 0,
    ]
    /// TPM2_GetRandom for one byte (TPM 2.0 Part 3 section 16.1).
    private static let getRandom: [UInt8] = [0x80, 0x01, 0, 0, 0, 12, 0, 0, 0x01, 0x7B, 0, 1]
    /// The head of its response: no sessions, 13 bytes, success.
    private static let randomByteFollows: [UInt8] = [0x80, 0x01, 0, 0, 0, 13, 0, 0, 0, 0]
    /// TPM2_Shutdown with TPM_SU_CLEAR (TPM 2.0 Part 3 section 9.4).
    private static let shutdown: [UInt8] = [0x80, 0x01, 0, 0, 0, 12, 0, 0, 0x01, 0x45, 0, 0]
}
