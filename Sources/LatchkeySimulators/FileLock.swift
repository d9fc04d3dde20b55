internal import Glibc

/// A lock between processes, held until the last reference goes. The kernel takes it back from a process that dies.
final class FileLock: Sendable {
    private let descriptor: Int32

    /// Takes the lock on the file at `path`, which is made when it is not there.
    ///
    /// - Returns: nil when somebody else has it, or the file can't be opened.
    init?(path: String) {
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { return nil }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            close(descriptor)
            return nil
        }
        self.descriptor = descriptor
    }

    deinit {
        close(descriptor)
    }
}
