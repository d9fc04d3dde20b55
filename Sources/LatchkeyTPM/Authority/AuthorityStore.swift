internal import FoundationEssentials
internal import Glibc
internal import Latchkey
internal import Synchronization

/// The broker's state in a file of mode 0600, replaced as a whole: a crash leaves the old one or the new one.
final class AuthorityStore: Sendable {
    private let path: String
    private let state: Mutex<AuthorityState?>

    /// - Throws: ``KeystoreError`` with code `damaged` for a file that can't be read: it is left as it is.
    init(directory: String) throws(KeystoreError) {
        path = "\(directory)/authority.json"
        guard let bytes = try Self.read(path) else {
            state = Mutex(nil)
            return
        }
        guard let read = try? JSONDecoder().decode(AuthorityState.self, from: bytes),
            read.version == AuthorityState.currentVersion
        else { throw .damaged("start the presence broker", "\(path) can't be read") }
        state = Mutex(read)
    }

    var current: AuthorityState? { state.withLock { $0 } }

    func user(_ user: UInt32) -> AuthorityState.User { current?.users[user] ?? AuthorityState.User() }

    /// Replaces everything.
    func replace(_ new: AuthorityState) throws(KeystoreError) {
        try write(new)
        state.withLock { $0 = new }
    }

    /// Changes what is kept of one user. One call at a time: the authority works on one thread.
    func update(_ user: UInt32, _ change: (inout AuthorityState.User) -> Void) throws(KeystoreError) {
        guard var new = current else { return }
        change(&new.users[user, default: AuthorityState.User()])
        try replace(new)
    }

    private static func read(_ path: String) throws(KeystoreError) -> Data? {
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
        var bytes = Data()
        var buffer = [UInt8](repeating: 0, count: 65536)
        while true {
            let count = Glibc.read(descriptor, &buffer, buffer.count)
            guard count > 0 else { break }
            bytes += buffer.prefix(count)
        }
        return bytes
    }

    private func write(_ new: AuthorityState) throws(KeystoreError) {
        guard let bytes = try? JSONEncoder().encode(new) else { throw Self.unusable(path, "it can't be encoded") }
        let temporary = "\(path).new"
        unlink(temporary)
        let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw Self.unusable(path, String(cString: strerror(errno))) }
        let written = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) == $0.count }
        let isSafe = written && fsync(descriptor) == 0
        close(descriptor)
        guard isSafe, rename(temporary, path) == 0 else {
            unlink(temporary)
            throw Self.unusable(path, "it can't be written")
        }
        let directory = open(String(path.prefix(upTo: path.lastIndex(of: "/") ?? path.endIndex)), O_RDONLY | O_CLOEXEC)
        guard directory >= 0 else { return }
        fsync(directory)
        close(directory)
    }

    private static func unusable(_ path: String, _ reason: String) -> KeystoreError {
        KeystoreError(
            operation: "use \(path)", code: .unavailable, reason: reason,
            recovery: "Give the service a state directory of its own, with mode 0700.")
    }
}
