internal import FoundationEssentials
internal import Glibc
internal import Latchkey
internal import Synchronization

/// The broker's state in a file, replaced as a whole: a crash leaves the old one or the new one.
final class AuthorityStore: Sendable {
    private let path: String
    private let state: Mutex<AuthorityState?>
    /// The approval key's authorization.
    let secret: AuthoritySecret

    /// - Throws: ``KeystoreError`` with code `damaged` for a file that can't be read: it is left as it is.
    init(directory: String) throws(KeystoreError) {
        path = "\(directory)/authority.json"
        guard let file = try PrivateFile.read(path) else {
            state = Mutex(nil)
            secret = try AuthoritySecret(directory: directory, isNew: true)
            return
        }
        let bytes = file.withUnsafeBytes { Data($0) }
        guard let read = try? JSONDecoder().decode(AuthorityState.self, from: bytes),
            read.version == AuthorityState.currentVersion
        else { throw .damaged("start the presence broker", "\(path) can't be read") }
        state = Mutex(read)
        secret = try AuthoritySecret(directory: directory, isNew: false)
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

    private func write(_ new: AuthorityState) throws(KeystoreError) {
        guard let bytes = try? JSONEncoder().encode(new) else {
            throw PrivateFile.unusable(path, "it can't be encoded")
        }
        try PrivateFile.replace(path, by: SecretBytes(bytes))
    }
}

/// What the presence broker keeps over restarts, in a file that it alone can read. The approval key's authValue is not
/// in it; see ``AuthoritySecret``.
struct AuthorityState: Codable, Sendable {
    static let currentVersion = 2

    var version = currentVersion
    /// The pinned storage root key.
    var root: Data
    /// The approval key: its public area and its private part, wrapped by the TPM.
    var publicArea: Data
    var privatePart: Data
    var users: [UInt32: User] = [:]

    struct User: Codable, Sendable {
        var pin: UserPIN?
        var enrolment: Enrolment?
    }

    /// An index for a user's own PIN.
    struct UserPIN: Codable, Sendable {
        /// After the first write.
        var publicArea: Data
        /// What the broker's approval of a write names.
        var resetReference: Data
        /// The value that is to be replaced by the PIN; nil once that is known to have happened.
        var initialValue: Data?
    }

    /// A user's fingers as they were last seen, and the counter of their changes.
    struct Enrolment: Codable, Sendable {
        var set: Data
        /// After the first write; nil where the TPM has no room.
        var counter: Data?
    }
}

/// The approval key's authValue: with it, and this TPM, one can approve anything.
///
/// It has a file of its own, which goes straight into locked memory: a decoder would leave copies.
struct AuthoritySecret: Sendable {
    private static let count = 32

    let bytes: SecretBytes

    /// - Parameter isNew: Whether there is no key yet that has it, so that it is to be made.
    /// - Throws: ``KeystoreError`` with code `damaged` when there is a key and not what opens it.
    init(directory: String, isNew: Bool) throws(KeystoreError) {
        let path = "\(directory)/authority.secret"
        guard isNew else {
            guard let kept = try PrivateFile.read(path), kept.count == Self.count else {
                throw .damaged("start the presence broker", "\(path) is not what it was")
            }
            bytes = kept
            return
        }
        bytes = .random(count: Self.count)
        try PrivateFile.replace(path, by: bytes)
    }
}

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
