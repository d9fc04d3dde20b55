import Crypto
import Glibc
import Latchkey

/// The digest of a file of any size.
enum FileDigest {
    /// - Parameter path: `-` for standard input.
    /// - Throws: ``KeystoreError`` with code `invalidInput` for a file that can't be read.
    static func sha256(of path: String) throws(KeystoreError) -> MessageDigest {
        let descriptor = path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw unreadable(path) }
        defer { if descriptor != STDIN_FILENO { close(descriptor) } }
        var hash = SHA256()
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = read(descriptor, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw unreadable(path) }
            guard count > 0 else { return MessageDigest(hash.finalize()) }
            hash.update(data: buffer[..<count])
        }
    }

    private static func unreadable(_ path: String) -> KeystoreError {
        .invalidInput("read \(path)", strerror(errno).map { String(cString: $0) } ?? "error \(errno)")
    }
}
