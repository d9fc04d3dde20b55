internal import FoundationEssentials
internal import Glibc
internal import Latchkey

/// Files of mode 0600, in a directory that nobody else can enter.
enum PrivateFile {
    /// More than the state of any number of users that there is room for.
    private static let maximumCount = 1 << 20

    /// - Returns: nil when there is none.
    /// - Throws: ``KeystoreError`` with code `unavailable` when it is another's, or others have rights to it.
    static func read(_ path: String) throws(KeystoreError) -> SecretBytes? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else {
            guard errno == ENOENT else { throw unusable(path, "it can't be opened") }
            return nil
        }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_uid == geteuid(), status.st_mode & 0o077 == 0 else {
            throw unusable(path, "others have rights to it")
        }
        guard status.st_size <= maximumCount else { throw unusable(path, "it is too long") }
        return try SecretBytes(count: Int(status.st_size)) { (buffer) throws(KeystoreError) in
            var rest = buffer[...]
            while !rest.isEmpty {
                let count = Glibc.read(
                    descriptor, UnsafeMutableRawBufferPointer(rebasing: rest).baseAddress, rest.count)
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { throw unusable(path, "it can't be read") }
                rest = rest.dropFirst(count)
            }
        }
    }

    /// Replaces it as a whole: a crash leaves the old one or the new one.
    static func replace(_ path: String, by bytes: SecretBytes) throws(KeystoreError) {
        let temporary = "\(path).new"
        unlink(temporary)
        let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw unusable(path, String(cString: strerror(errno))) }
        let isWritten =
            bytes.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) == $0.count } && fsync(descriptor) == 0
        close(descriptor)
        guard isWritten, rename(temporary, path) == 0 else {
            unlink(temporary)
            throw unusable(path, "it can't be written")
        }
        let directory = open(String(path.prefix(upTo: path.lastIndex(of: "/") ?? path.endIndex)), O_RDONLY | O_CLOEXEC)
        guard directory >= 0 else { return }
        fsync(directory)
        close(directory)
    }

    static func unusable(_ path: String, _ reason: String) -> KeystoreError {
        KeystoreError(
            operation: "use \(path)", code: .unavailable, reason: reason,
            recovery: "Give the service a state directory of its own, with mode 0700.")
    }
}
