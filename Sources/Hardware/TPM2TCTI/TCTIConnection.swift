internal import CTSS2
internal import Glibc
internal import LatchkeyPlatform
internal import Synchronization
public import TPM2

/// A connection through tpm2-tss: `device:/dev/tpmrm0`, `swtpm:path=…`, `tabrmd:`, `pcap:…`, or any
/// other TCTI that `libtss2-tctildr` can load.
public final class TCTIConnection: TPMTransport {
    /// The time limit for each response. The slowest command, creating an RSA key, takes minutes on
    /// old TPMs.
    package static let responseLimit = Duration.seconds(120)

    private let configuration: String
    private let limit: Duration
    private var context: OpaquePointer?

    /// Opens the connection.
    ///
    /// - Parameter configuration: A TCTI string, `name:options`.
    /// - Throws: ``TPMError`` of kind `transport`. The reason names the missing device, library or
    ///   permission.
    public convenience init(_ configuration: String) throws(TPMError) {
        try self.init(configuration, limit: Self.responseLimit)
    }

    /// - Parameter limit: The time limit for opening the connection, and for each response.
    package init(_ configuration: String, limit: Duration) throws(TPMError) {
        (self.configuration, self.limit) = (configuration, limit)
        Self.quietenLogging
        guard !Self.namesFile(configuration) else {
            throw TPMError(.transport(.absent), reason: "‘\(configuration)’ is not a device")
        }
        let known = Self.resolved.withLock { $0[configuration] }
        let opened = try bounded { [configuration] in
            var context: OpaquePointer?
            let code = Tss2_TctiLdr_Initialize(known ?? configuration, &context)
            return Unshared((code, context))
        }.value
        context = opened.1
        guard opened.0 == 0, context != nil else {
            throw Self.openingFailed(configuration, opened.0)
        }
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
        guard mayBlock else {
            try check(ctss2_transmit(context, command.count, command), "sending")
            guard try isReady(pollHandles(context), by: .now + limit) else {
                _ = ctss2_cancel(context)
                // The next command would read a late response as its own.
                close()
                throw late
            }
            return try response(of: Self.receive(context))
        }
        let shared = Unshared(context)
        return try response(
            of: bounded {
                let code = ctss2_transmit(shared.value, command.count, command)
                return code == 0
                    ? Self.receive(shared.value) : Received(code: code, doing: "sending", bytes: [])
            })
    }

    /// The result of a call of the TCTI.
    private struct Received: Sendable {
        let code: TSS2_RC
        let doing: String
        let bytes: [UInt8]
    }

    private static func receive(_ context: OpaquePointer) -> Received {
        var response = [UInt8](repeating: 0, count: TPM.maximumMessageBytes)
        var size = response.count
        let code = ctss2_receive(context, &size, &response, TSS2_TCTI_TIMEOUT_BLOCK)
        return Received(code: code, doing: "receiving", bytes: Array(response.prefix(size)))
    }

    private func response(of received: Received) throws(TPMError) -> [UInt8] {
        try check(received.code, received.doing)
        return received.bytes
    }

    /// Whether calls of the TCTI may block without a limit, as those of swtpm and mssim do. A
    /// device and tpm2-abrmd have poll handles.
    private var mayBlock: Bool {
        !["device:", "tabrmd:"].contains { configuration.hasPrefix($0) }
    }

    /// A value that one thread uses at a time.
    private struct Unshared<Value>: @unchecked Sendable {
        let value: Value

        init(_ value: Value) { self.value = value }
    }

    /// Makes a call of the TCTI. A software TPM does not answer while another program holds its
    /// only connection, or while it is stopped.
    ///
    /// - Throws: ``TPMError`` at the time limit. The call continues, and the connection, which it
    ///   uses, is never closed.
    private func bounded<R: Sendable>(
        _ call: @escaping @Sendable () -> R
    ) throws(TPMError) -> R {
        guard mayBlock else { return call() }
        var isStarted = true
        if let result = BlockingThread.run(
            within: limit, unstarted: { isStarted = false }, call)
        {
            return result
        }
        context = nil
        guard isStarted else { throw broken("the system cannot start a thread") }
        throw TPMError(
            .transport(.silent),
            reason:
                "the TPM at \(configuration) did not answer within \(limit.components.seconds) s: "
                + "it is stopped, or another program holds its only connection")
    }

    public func close() {
        Tss2_TctiLdr_Finalize(&context)
        context = nil
    }

    /// The file descriptors to poll. A device returns a whole response at once, so polling once is
    /// enough. A TCTI without poll handles blocks in receive instead.
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
            reason:
                "the TPM at \(configuration) did not answer within \(limit.components.seconds) s")
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
        let socket = "swtpm:path="
        if configuration.hasPrefix(socket) {
            let path = String(configuration.dropFirst(socket.count))
            if access(path, W_OK) != 0, errno == EACCES {
                return TPMError(
                    .transport(.forbidden),
                    reason: "this user has no permission to use the software TPM's socket \(path)")
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
