import Glibc
import Latchkey

/// Secrets on standard input and output: unbuffered, so that no copy is left behind.
enum StandardStreams {
    /// The most bytes that are read.
    static let limit = RecordContainer.maximumPayloadBytes / 2

    static let adviceForLarger = "Store what is larger in a file, encrypted under a key of which you store the bytes."

    /// Everything on standard input.
    ///
    /// - Parameter larger: What to do with what is too large.
    /// - Throws: ``KeystoreError`` with code `invalidInput` when there is nothing, or more than `limit` bytes.
    static func readSecret(
        _ operation: String, limit: Int, larger: String
    ) throws(KeystoreError) -> SecretBytes {
        var bytes = [UInt8](repeating: 0, count: limit + 1)
        defer {
            bytes.withUnsafeMutableBytes { all in
                if let base = all.baseAddress { explicit_bzero(base, all.count) }
            }
        }
        var length = 0
        while length < bytes.count {
            let count = bytes[length...].withUnsafeMutableBytes { rest in
                rest.baseAddress.map { read(STDIN_FILENO, $0, rest.count) } ?? 0
            }
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw .invalidInput(operation, "standard input can't be read") }
            guard count > 0 else { break }
            length += count
        }
        guard length > 0 else {
            throw invalid(operation, "nothing came on standard input", "Redirect a file or a pipe to it.")
        }
        guard length <= limit else {
            throw invalid(operation, "more than \(limit) bytes came on standard input", larger)
        }
        return SecretBytes(bytes[..<length])
    }

    /// Has the descriptors 0, 1 and 2 stand for nothing where they were closed, and a pipe that nobody reads be an error and
    /// no signal.
    ///
    /// Otherwise the next file that is opened would become standard output, and a result would be written into the store.
    static func secure() {
        for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) < 0 {
            // The lowest free number is this one. What is written to standard output then fails, as it did before.
            _ = open("/dev/null", descriptor == STDERR_FILENO ? O_WRONLY : O_RDONLY)
        }
        // A handler and not SIG_IGN, which the programs that this one starts would inherit.
        signal(SIGPIPE) { _ in }
    }

    private static func invalid(_ operation: String, _ reason: String, _ recovery: String) -> KeystoreError {
        KeystoreError(operation: operation, code: .invalidInput, reason: reason, recovery: recovery)
    }

    /// Writes text to standard output.
    static func write(_ text: String) throws(KeystoreError) {
        let written = Array(text.utf8).withUnsafeBytes { bytes in
            Result { () throws(KeystoreError) in try write(bytes) }
        }
        try written.get()
    }

    /// Writes to standard output, byte for byte.
    ///
    /// - Throws: ``KeystoreError`` with code `failed` when not everything could be written.
    static func write(_ bytes: UnsafeRawBufferPointer) throws(KeystoreError) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = UnsafeRawBufferPointer(rebasing: rest).withMemoryRebound(to: UInt8.self) {
                Glibc.write(STDOUT_FILENO, $0.baseAddress, $0.count)
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else {
                throw KeystoreError(
                    operation: "show the result", code: .failed,
                    reason: "standard output can't be written: \(String(cString: strerror(errno)))",
                    recovery: "Check where the output goes; what the command did is done.")
            }
            rest = rest.dropFirst(count)
        }
    }
}
