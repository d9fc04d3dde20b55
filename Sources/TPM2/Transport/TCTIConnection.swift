internal import CEnvironment
internal import CTSS2
internal import Glibc

/// A connection through tpm2-tss: `device:/dev/tpmrm0`, `swtpm:path=…`, `tabrmd:`, `pcap:…` and whatever else
/// `libtss2-tctildr` can load.
public final class TCTIConnection: TPMTransport {
    /// How long one command may take. RSA keys are the slowest thing a TPM makes: minutes on the oldest chips.
    public static let defaultDeadlineSeconds = 120

    private let configuration: String
    private let deadlineSeconds: Int
    private var context: OpaquePointer?

    /// Opens the connection.
    ///
    /// - Parameters:
    ///   - configuration: A TCTI string, `name:options`.
    ///   - deadlineSeconds: How long to wait for each response, where the TCTI can be waited for; else it blocks.
    /// - Throws: ``TPMError`` of kind `transport`; the reason names what is missing.
    public init(_ configuration: String, deadlineSeconds: Int = defaultDeadlineSeconds) throws(TPMError) {
        self.configuration = configuration
        self.deadlineSeconds = deadlineSeconds
        Self.quietenLogging
        guard !Self.namesFile(configuration) else {
            throw TPMError(.transport(.absent), reason: "‘\(configuration)’ is not a device")
        }
        let code = Tss2_TctiLdr_Initialize(configuration, &context)
        guard code == 0, context != nil else { throw Self.openingFailed(configuration, code) }
        Self.keepLibrary(of: configuration)
    }

    deinit {
        close()
    }

    /// Keeps the library of a TCTI, which is loaded by now, in the process: to load it anew for each connection would take
    /// as long as a command.
    private static func keepLibrary(of configuration: String) {
        let name = configuration.prefix { $0 != ":" }
        _ = dlopen(library(of: name), RTLD_LAZY | RTLD_NOLOAD | Int32(RTLD_NODELETE))
    }

    /// What tpm2-tss calls the library of a TCTI.
    private static func library(of name: some StringProtocol) -> String { "libtss2-tcti-\(name).so.0" }

    /// Whether it names something as a device that is none. tpm2-tss opens whatever `device:` names, and writes commands
    /// into it: into a file too.
    package static func namesFile(_ configuration: String) -> Bool {
        let prefix = "device:"
        var status = stat()
        return configuration.hasPrefix(prefix)
            && stat(String(configuration.dropFirst(prefix.count)), &status) == 0
            && status.st_mode & S_IFMT != S_IFCHR
    }

    public func exchange(_ command: [UInt8]) throws(TPMError) -> [UInt8] {
        guard let context else { throw broken("it is closed") }
        guard command.count <= TPM.maximumMessageBytes else { throw broken("a command is too long") }
        try check(ctss2_transmit(context, command.count, command), "sending")
        let deadline = ContinuousClock.now + .seconds(deadlineSeconds)
        guard try isReady(pollHandles(context), by: deadline) else {
            _ = ctss2_cancel(context)
            // A response that comes later would be taken for the next command's.
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

    /// What can be waited on. A device hands a response over whole, so that readiness is enough; TCTIs that have nothing
    /// to wait on (swtpm and mssim before tpm2-tss 4) block in receive instead.
    private func pollHandles(_ context: OpaquePointer) -> [pollfd] {
        var count = 0
        guard ctss2_poll_handles(context, nil, &count) == 0, (1...8).contains(count) else { return [] }
        var handles = [pollfd](repeating: pollfd(), count: count)
        guard ctss2_poll_handles(context, &handles, &count) == 0, count <= handles.count else { return [] }
        // tpm2-abrmd's TCTI says on which descriptor a response comes, and leaves out that it is to be read.
        for index in handles.indices { handles[index].events |= Int16(POLLIN) }
        return Array(handles.prefix(count))
    }

    /// Waits until there is something to receive.
    ///
    /// - Returns: false when the deadline came first.
    private func isReady(_ handles: [pollfd], by deadline: ContinuousClock.Instant) throws(TPMError) -> Bool {
        guard !handles.isEmpty else { return true }
        var handles = handles
        while true {
            let left = (deadline - ContinuousClock.now).components
            let milliseconds = max(0, left.seconds * 1000 + left.attoseconds / 1_000_000_000_000_000)
            let ready = poll(&handles, nfds_t(handles.count), Int32(clamping: milliseconds))
            if ready < 0 && errno == EINTR { continue }
            guard ready >= 0 else { throw broken("waiting failed: \(String(cString: strerror(errno)))") }
            return ready > 0
        }
    }

    private var late: TPMError {
        TPMError(
            .transport(.timeout), reason: "the TPM at \(configuration) did not answer within \(deadlineSeconds) s")
    }

    private func check(_ code: TSS2_RC, _ doing: String) throws(TPMError) {
        guard code != 0 else { return }
        throw broken("\(doing) failed with 0x\(String(code, radix: 16))")
    }

    private func broken(_ reason: String) -> TPMError {
        TPMError(.transport(.broken), reason: "the connection to the TPM at \(configuration) broke: \(reason)")
    }

    /// tpm2-tss writes to standard error about every failure, expected ones too. It reads `TSS2_LOG` once, before its
    /// first message; a value that the user has set stays. Set once per process, before the library's first use.
    private static let quietenLogging: Void = {
        guard getenv("TSS2_LOG") == nil, let entry = strdup("TSS2_LOG=all+NONE") else { return }
        // Without memory its messages show.
        _ = latchkey_environment_change(entry, nil)
    }()
}

extension TCTIConnection {
    /// Says why a connection can't be opened: for a device the operating system knows, for everything else only the
    /// TCTI's code is there.
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
                    reason: "this user may not open \(path), which belongs to \(group(of: path))")
            }
        }
        guard isInstalled(parts.first ?? "") else {
            return TPMError(
                .transport(.silent),
                reason: "there is no TCTI ‘\(parts.first ?? "")’ here, as device:/dev/tpmrm0 or swtpm:path=… is one")
        }
        return TPMError(
            .transport(.silent), reason: "no TPM answers at \(configuration) (0x\(String(code, radix: 16)))")
    }

    /// Whether tpm2-tss has a library of this name; what has none of its own may be a library's file itself.
    private static func isInstalled(_ name: String) -> Bool {
        if name.hasPrefix("libtss2-") || name.contains("/") { return true }
        guard let library = dlopen(library(of: name), RTLD_LAZY) else { return false }
        dlclose(library)
        return true
    }

    private static func group(of path: String) -> String {
        var status = stat()
        guard stat(path, &status) == 0, let group = getgrgid(status.st_gid) else { return "another group" }
        return "the group \(String(cString: group.pointee.gr_name))"
    }
}
