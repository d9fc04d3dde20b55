internal import CTSS2
internal import Glibc
internal import LatchkeyPlatform
internal import Synchronization
public import TPM2

/// A connection through tpm2-tss: `device:/dev/tpmrm0`, `swtpm:path=…`, `tabrmd:`, `pcap:…`, or any
/// other TCTI that `libtss2-tctildr` can load.
public final class TCTIConnection: TPMTransport {
    /// The time limit for each response. The slowest command, creating an RSA key, takes minutes on
    /// old TPMs. A TCTI without poll handles blocks without a limit.
    private static let deadlineSeconds = 120

    private let configuration: String
    private var context: OpaquePointer?

    /// Opens the connection.
    ///
    /// - Parameter configuration: A TCTI string, `name:options`.
    /// - Throws: ``TPMError`` of kind `transport`. The reason names the missing device, library or
    ///   permission.
    public init(_ configuration: String) throws(TPMError) {
        self.configuration = configuration
        Self.quietenLogging
        guard !Self.namesFile(configuration) else {
            throw TPMError(.transport(.absent), reason: "‘\(configuration)’ is not a device")
        }
        let known = Self.resolved.withLock { $0[configuration] }
        let code = Tss2_TctiLdr_Initialize(known ?? configuration, &context)
        guard code == 0, context != nil else { throw Self.openingFailed(configuration, code) }
        if known == nil, let resolved = Self.keepLibrary(of: configuration) {
            Self.resolved.withLock { $0[configuration] = resolved }
        }
    }

    deinit {
        close()
    }

    /// The configurations that were used, with the file names of their libraries, which stay
    /// loaded. tpm2-tss does not search the file system for such a name.
    private static let resolved = Mutex<[String: String]>([:])

    /// Keeps the loaded library of the TCTI in the process. Loading it for each connection takes as
    /// long as a command.
    ///
    /// - Returns: The configuration with the library's file name; nil if the name is not one of
    ///   tpm2-tss.
    private static func keepLibrary(of configuration: String) -> String? {
        let name = configuration.prefix { $0 != ":" }
        let library = library(of: name)
        guard dlopen(library, RTLD_LAZY | RTLD_NOLOAD | Int32(RTLD_NODELETE)) != nil else {
            return nil
        }
        return library + configuration.dropFirst(name.count)
    }

    /// The file name of a TCTI's library in tpm2-tss.
    private static func library(of name: some StringProtocol) -> String {
        "libtss2-tcti-\(name).so.0"
    }

    /// Whether the configuration names an existing file that is not a character device. tpm2-tss
    /// would write commands into such a file.
    package static func namesFile(_ configuration: String) -> Bool {
        let prefix = "device:"
        var status = stat()
        return configuration.hasPrefix(prefix)
            && stat(String(configuration.dropFirst(prefix.count)), &status) == 0
            && status.st_mode & S_IFMT != S_IFCHR
    }

    public func exchange(_ command: [UInt8]) throws(TPMError) -> [UInt8] {
        guard let context else { throw broken("it is closed") }
        guard command.count <= TPM.maximumMessageBytes else {
            throw broken("a command is too long")
        }
        try check(ctss2_transmit(context, command.count, command), "sending")
        let deadline = ContinuousClock.now + .seconds(Self.deadlineSeconds)
        guard try isReady(pollHandles(context), by: deadline) else {
            _ = ctss2_cancel(context)
            // The next command would read a late response as its own.
            close()
            throw late
        }
        var response = [UInt8](repeating: 0, count: TPM.maximumMessageBytes)
        var size = response.count
        try check(ctss2_receive(context, &size, &response, TSS2_TCTI_TIMEOUT_BLOCK), "receiving")
        guard size <= response.count else { throw broken("the response is longer than its buffer") }
        return Array(response.prefix(size))
    }

    public func close() {
        Tss2_TctiLdr_Finalize(&context)
        context = nil
    }

    /// The file descriptors to poll. A device returns a whole response at once, so polling once is
    /// enough. TCTIs without poll handles (swtpm and mssim before tpm2-tss 4) block in receive
    /// instead.
    private func pollHandles(_ context: OpaquePointer) -> [pollfd] {
        var count = 0
        guard ctss2_poll_handles(context, nil, &count) == 0, (1...8).contains(count) else {
            return []
        }
        var handles = [pollfd](repeating: pollfd(), count: count)
        guard ctss2_poll_handles(context, &handles, &count) == 0, count <= handles.count else {
            return []
        }
        return Array(handles.prefix(count))
    }

    /// Waits until a response can be received.
    ///
    /// - Returns: false at the deadline.
    private func isReady(_ handles: [pollfd], by deadline: ContinuousClock.Instant) throws(TPMError)
        -> Bool
    {
        guard !handles.isEmpty else { return true }
        do throws(SystemError) {
            // The TCTI of tpm2-abrmd returns the descriptor without the event to wait for.
            let watched = handles.map { ($0.fd, Int32($0.events) | POLLIN) }
            return try !Poll.wait(for: watched, until: deadline).isLate
        } catch {
            throw broken("waiting failed: \(error)")
        }
    }

    private var late: TPMError {
        TPMError(
            .transport(.timeout),
            reason: "the TPM at \(configuration) did not answer within \(Self.deadlineSeconds) s")
    }

    private func check(_ code: TSS2_RC, _ doing: String) throws(TPMError) {
        guard code != 0 else { return }
        throw broken("\(doing) failed with 0x\(String(code, radix: 16))")
    }

    private func broken(_ reason: String) -> TPMError {
        TPMError(
            .transport(.broken),
            reason: "the connection to the TPM at \(configuration) broke: \(reason)")
    }

    /// Turns off the messages that tpm2-tss writes to standard error about each failure, including
    /// expected ones. The library reads `TSS2_LOG` once, before its first message, so this runs
    /// before its first use. A value that the user set takes precedence.
    private static let quietenLogging: Void = {
        guard getenv("TSS2_LOG") == nil else { return }
        // A failure leaves the messages on.
        EnvironmentVariable(setting: "TSS2_LOG=all+NONE")
    }()
}

extension TCTIConnection {
    /// Describes why a connection cannot be opened. For a device the operating system knows the
    /// cause; for other TCTIs only the TCTI's code is available.
    private static func openingFailed(_ configuration: String, _ code: TSS2_RC) -> TPMError {
        let parts = configuration.split(separator: ":", maxSplits: 1).map(String.init)
        if parts.first == "device" {
            let path = parts.count > 1 && !parts[1].isEmpty ? parts[1] : "/dev/tpmrm0"
            if access(path, F_OK) != 0 {
                return TPMError(.transport(.absent), reason: "there is no TPM at \(path)")
            }
            if access(path, R_OK | W_OK) != 0 {
                return TPMError(
                    .transport(.forbidden),
                    reason:
                        "this user has no permission to open \(path), which belongs to \(group(of: path))"
                )
            }
        }
        guard isInstalled(parts.first ?? "") else {
            return TPMError(
                .transport(.silent),
                reason:
                    "no TCTI ‘\(parts.first ?? "")’ is installed; examples: device:/dev/tpmrm0, swtpm:path=…"
            )
        }
        return TPMError(
            .transport(.silent),
            reason: "no TPM answers at \(configuration) (0x\(String(code, radix: 16)))")
    }

    /// Whether tpm2-tss has a library for this TCTI. The name may also be the path or file name of
    /// a library.
    private static func isInstalled(_ name: String) -> Bool {
        if name.hasPrefix("libtss2-") || name.contains("/") { return true }
        guard let library = dlopen(library(of: name), RTLD_LAZY) else { return false }
        dlclose(library)
        return true
    }

    private static func group(of path: String) -> String {
        var status = stat()
        guard stat(path, &status) == 0, let group = getgrgid(status.st_gid) else {
            return "another group"
        }
        return "the group \(String(cString: group.pointee.gr_name))"
    }
}
