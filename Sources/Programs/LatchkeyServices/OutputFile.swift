internal import Glibc
package import Latchkey
internal import LatchkeyPlatform

/// A file that an option of a command names for its result.
///
/// Writes into an existing file, device, FIFO, or the target of a link, as other programs do, so
/// that each keeps its type, owner and mode. A new file appears with its whole contents.
package struct OutputFile: Sendable {
    /// Absolute, because a PKCS#11 module can change the working directory.
    private let path: String

    package init(path: String) {
        self.path = path.hasPrefix("/") || path == "-" ? path : Self.workingDirectory + "/" + path
    }

    private static var workingDirectory: String {
        guard let name = getcwd(nil, 0) else { return "." }
        defer { free(name) }
        return String(cString: name)
    }

    /// Checks that the file can be written, before the user is prompted.
    ///
    /// - Parameter input: The file that the command reads, `-` for standard input. The result must
    ///   not replace it.
    package func check(besidesInput input: String? = nil) throws(KeystoreError) {
        guard path != "-" else {
            throw unwritable(
                "without --output, standard output has the signature in base64url")
        }
        do throws(SystemError) {
            switch try kind(of: path) {
            case nil: try checkFolder(of: try Self.target(of: path))
            case S_IFDIR: throw SystemError(EISDIR)
            case S_IFSOCK: throw SystemError(ENXIO)
            default:
                guard access(path, W_OK) == 0 else { throw .last }
            }
        } catch {
            throw unwritable(error)
        }
        guard !isFile(input) else {
            throw KeystoreError(
                code: .invalidInput, reason: "the result would replace the input, \(path)",
                recovery: "Name another file with --output.")
        }
    }

    /// Whether the path leads to the plain file `input`, also by a link.
    private func isFile(_ input: String?) -> Bool {
        guard let input else { return false }
        var (own, read) = (stat(), stat())
        guard stat(path, &own) == 0,
            (input == "-" ? fstat(STDIN_FILENO, &read) : stat(input, &read)) == 0
        else { return false }
        return own.st_mode & S_IFMT == S_IFREG && own.st_dev == read.st_dev
            && own.st_ino == read.st_ino
    }

    /// Writes the contents. Waits for a reader of a FIFO.
    package func write(_ bytes: [UInt8]) async throws(KeystoreError) {
        do throws(SystemError) {
            try await BlockingThread().run { () throws(SystemError) in try writeNow(bytes) }
        } catch {
            throw unwritable(error)
        }
    }

    private func writeNow(_ bytes: [UInt8]) throws(SystemError) {
        let existing = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY)
        guard existing >= 0 else {
            guard errno == ENOENT else { throw .last }
            return try create(bytes, at: try Self.target(of: path))
        }
        defer { close(existing) }
        try Self.writeAll(bytes, to: existing)
        // The end of an earlier, longer content. After the write, so that a full disk does not empty
        // the file.
        var status = stat()
        guard fstat(existing, &status) == 0 else { throw .last }
        guard status.st_mode & S_IFMT != S_IFREG || ftruncate(existing, off_t(bytes.count)) == 0
        else { throw .last }
    }

    /// Creates a file with its whole contents.
    private func create(_ bytes: [UInt8], at target: String) throws(SystemError) {
        let temporary = "\(target).\(getpid())-\(UInt32.random(in: .min ... .max))"
        let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o666)
        guard descriptor >= 0 else { throw .last }
        do throws(SystemError) {
            defer { close(descriptor) }
            try Self.writeAll(bytes, to: descriptor)
            guard fsync(descriptor) == 0 else { throw .last }
        } catch {
            unlink(temporary)
            throw error
        }
        // Unlike rename(2), this does not replace a device that another program has just created.
        // Some file systems have no link(2).
        guard
            link(temporary, target) == 0
                || ([EPERM, ENOSYS, EOPNOTSUPP].contains(errno) && rename(temporary, target) == 0)
        else {
            let error = SystemError.last
            unlink(temporary)
            throw error
        }
        unlink(temporary)
    }

    static func writeAll(_ bytes: [UInt8], to descriptor: Int32) throws(SystemError) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw .last }
            rest = rest.dropFirst(count)
        }
    }

    /// The type of the file, as in `st_mode`; nil if it does not exist.
    private func kind(of path: String) throws(SystemError) -> mode_t? {
        var status = stat()
        guard stat(path, &status) == 0 else {
            guard errno == ENOENT else { throw .last }
            return nil
        }
        return status.st_mode & S_IFMT
    }

    private func checkFolder(of path: String) throws(SystemError) {
        guard access(Self.folder(of: path), W_OK | X_OK) == 0 else { throw .last }
    }

    private static func folder(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    /// The file to create: for links whose target does not exist, that target.
    private static func target(of path: String) throws(SystemError) -> String {
        var path = path
        // The kernel follows as many links.
        for _ in 0..<40 {
            var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
            let count = readlink(path, &buffer, buffer.count)
            guard count >= 0 else {
                guard errno == EINVAL || errno == ENOENT else { throw .last }
                return path
            }
            let next = String(
                decoding: buffer.prefix(count).map(UInt8.init(bitPattern:)), as: UTF8.self)
            path = next.hasPrefix("/") ? next : "\(folder(of: path))/\(next)"
        }
        throw SystemError(ELOOP)
    }

    private func unwritable(_ error: SystemError) -> KeystoreError {
        guard [ENOSPC, EDQUOT].contains(error.number) else { return unwritable("\(error)") }
        return KeystoreError(
            code: .unavailable, reason: "the result cannot be written to \(path): \(error)",
            recovery: Recovery(WriteRehearsal.advice(after: error)))
    }

    private func unwritable(_ reason: String) -> KeystoreError {
        KeystoreError(
            code: .invalidInput, reason: "the result cannot be written to \(path): \(reason)",
            recovery:
                "Name a file that you can write with --output, or a new one in a directory that you can write."
        )
    }
}
