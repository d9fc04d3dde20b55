import Glibc
import Latchkey
import Synchronization
import SystemPackage

/// Reads and writes secrets on the standard streams without buffers, so that no copy stays in
/// memory.
enum StandardStreams {
    /// The maximum number of bytes to read.
    static let limit = RecordContainer.maximumPayloadBytes / 2

    static let adviceForLarger =
        "Encrypt larger data in a file with a random key, and store only that key here."

    private static let hasReadInput = Atomic(false)

    /// Whether a command has read standard input to its end. Standard input then contains no PINs.
    static var isInputRead: Bool { hasReadInput.load(ordering: .relaxed) }

    /// Records that a command reads standard input to its end.
    static func noteInputRead() { hasReadInput.store(true, ordering: .relaxed) }

    /// Reads all of standard input.
    ///
    /// - Parameter larger: The recovery text for input that is too large.
    /// - Throws: ``KeystoreError`` with code `invalidInput` if there are no bytes, or more than
    ///   `limit`.
    static func readSecret(limit: Int, larger: String) throws(KeystoreError) -> SecretBytes {
        var bytes = [UInt8](repeating: 0, count: limit + 1)
        defer {
            bytes.withUnsafeMutableBytes { all in
                if let base = all.baseAddress { explicit_bzero(base, all.count) }
            }
        }
        var length = 0
        while length < bytes.count {
            guard
                let count = bytes.withUnsafeMutableBytes({ all in
                    try? FileDescriptor.standardInput.read(into: .init(rebasing: all[length...]))
                })
            else {
                throw invalid("standard input cannot be read", "Redirect a file or a pipe to it.")
            }
            guard count > 0 else { break }
            length += count
        }
        guard length > 0 else {
            throw invalid(
                "standard input is empty",
                "Redirect a file to standard input (< FILE), or use a pipe.")
        }
        guard length <= limit else {
            throw invalid("standard input has more than \(limit) bytes", larger)
        }
        return SecretBytes(bytes[..<length])
    }

    private static func invalid(_ reason: String, _ recovery: String) -> KeystoreError {
        KeystoreError(
            operation: "read standard input", code: .invalidInput, reason: reason,
            recovery: recovery)
    }

    /// Standard error, also while ``withoutForeignMessages(_:)`` runs.
    private static let errors = FileDescriptor(
        rawValue: {
            let copy = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)
            return copy < 0 ? STDERR_FILENO : copy
        }())

    /// Writes a line to standard error. Ignores a failure.
    static func writeError(_ line: String) {
        _ = try? errors.writeAll("\(line)\n".utf8)
    }

    /// Discards what libraries write to standard error while `body` runs.
    static func withoutForeignMessages<R, E: Error>(_ body: () async throws(E) -> R) async throws(E)
        -> R
    {
        guard errors != .standardError,
            let null = try? FileDescriptor.open("/dev/null", .writeOnly, options: .closeOnExec)
        else { return try await body() }
        _ = try? null.duplicate(as: .standardError)
        try? null.close()
        defer { _ = try? errors.duplicate(as: .standardError) }
        return try await body()
    }

    /// Standard output, also after ``keepOutputPrivate()``.
    private static let output = Atomic(STDOUT_FILENO)

    static var outputDescriptor: Int32 { output.load(ordering: .relaxed) }

    /// Makes descriptor 1 standard error for libraries: some PKCS#11 modules print to it. Only
    /// ``write(_:)`` still reaches standard output. Call it before a module is loaded.
    static func keepOutputPrivate() {
        guard outputDescriptor == STDOUT_FILENO else { return }
        let copy = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)
        guard copy >= 0 else { return }
        output.store(copy, ordering: .relaxed)
        dup2(STDERR_FILENO, STDOUT_FILENO)
    }

    /// Makes descriptor 1 standard output again, for a program that replaces this process and for a
    /// file name such as /dev/stdout.
    static func shareOutput() {
        let copy = output.exchange(STDOUT_FILENO, ordering: .relaxed)
        guard copy != STDOUT_FILENO else { return }
        dup2(copy, STDOUT_FILENO)
        close(copy)
    }

    /// Writes to standard output, byte for byte.
    ///
    /// - Throws: ``KeystoreError`` with code `failed` if not all bytes can be written.
    static func write(_ bytes: some Sequence<UInt8>) throws(KeystoreError) {
        do {
            try FileDescriptor(rawValue: outputDescriptor).writeAll(bytes)
        } catch {
            throw KeystoreError(
                operation: "show the result", code: .failed,
                reason: "standard output cannot be written: \(error)",
                recovery:
                    "The command itself succeeded. Check the file or pipe that receives the output."
            )
        }
    }
}
