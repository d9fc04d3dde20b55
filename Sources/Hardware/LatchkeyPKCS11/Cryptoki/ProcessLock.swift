internal import Crypto
internal import Dispatch
internal import FoundationEssentials
internal import Glibc
internal import Latchkey
internal import LatchkeyPlatform

/// A lock for the processes of this user: one has it alone, or several share it.
///
/// It is an flock(2) on a file. It ends with this object, or if the process ends, when no process
/// has a copy of the descriptor; the file stays. Processes of other users and other programs do not
/// take it.
final class ProcessLock: Sendable {
    private let descriptor: Int32
    private let path: String

    /// Opens the file; takes no lock.
    ///
    /// - Throws: `lockUnavailable`.
    init(_ name: String, in directory: String? = nil) throws(CryptokiError) {
        let directory =
            if let directory { directory } else { try Self.directory(among: Self.candidates()) }
        let path = "\(directory)/\(name).lock"
        let descriptor = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw CryptokiError(
                .lockUnavailable,
                reason: "\(path) can't be opened: \(SystemError.last)")
        }
        self.path = path
        self.descriptor = descriptor
    }

    deinit {
        // A child process has a copy of the descriptor until its `exec`, so close(2) alone may
        // leave the lock to that copy.
        release()
        close(descriptor)
    }

    /// Takes the lock if no other process prevents it.
    ///
    /// - Parameter kind: `LOCK_EX`, or `LOCK_SH` to share it.
    /// - Returns: Whether this process has it now.
    func take(_ kind: Int32 = LOCK_EX) throws(CryptokiError) -> Bool {
        while flock(descriptor, kind | LOCK_NB) != 0 {
            if errno == EWOULDBLOCK { return false }
            guard errno == EINTR else {
                throw CryptokiError(
                    .lockUnavailable,
                    reason: "\(path) can't be locked: \(SystemError.last)")
            }
        }
        return true
    }

    /// Blocks the thread until the lock is taken, and goes on without it after `limit`.
    func wait(for kind: Int32, atMost limit: Duration) {
        let deadline = ContinuousClock.now + limit
        while (try? take(kind)) == false, ContinuousClock.now < deadline { usleep(2000) }
    }

    func release() { flock(descriptor, LOCK_UN) }

    /// The directories for the file, in order of preference. Other users can't create any of them.
    /// The order does not depend on the environment, so that all processes of the user choose the
    /// same one.
    ///
    /// The home directory of the password database comes before /run/user/UID, which exists only
    /// while the user has a login session. Processes of a user choose different directories only if
    /// the home directory is writable for some of them and not for others, such as a service with
    /// `ProtectHome=`. Root uses /run first.
    private static func candidates() -> [String] {
        let user = geteuid()
        let system = user == 0 ? ["/run/latchkey-locks"] : []
        let home = homeDirectory(of: user).map { ["\($0)/.local/state/latchkey/locks"] } ?? []
        return system + home + ["/run/user/\(user)"]
    }

    /// Chooses the first directory that this user owns and that only this user can write. Creates
    /// it where it is missing.
    ///
    /// - Throws: `lockUnavailable` with the names of all directories.
    static func directory(among candidates: [String]) throws(CryptokiError) -> String {
        for path in candidates {
            make(path)
            if isPrivate(path), access(path, W_OK | X_OK) == 0 { return path }
        }
        throw CryptokiError(
            .lockUnavailable,
            reason: "no directory for the token's lock is writable for this user only: "
                + candidates.joined(separator: ", "))
    }

    /// Creates a directory and its parents. Errors are detected when the directory is used.
    private static func make(_ path: String) {
        var parent = ""
        for name in path.split(separator: "/") {
            parent += "/\(name)"
            mkdir(parent, 0o700)
        }
    }

    private static func isPrivate(_ path: String) -> Bool {
        var status = stat()
        return lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
            && status.st_uid == geteuid()
            && status.st_mode & (S_IWGRP | S_IWOTH) == 0
    }

    /// The home directory in the password database, if it exists and is the user's.
    private static func homeDirectory(of user: uid_t) -> String? {
        let home = withUnsafeTemporaryAllocation(of: CChar.self, capacity: 16384) {
            buffer -> String? in
            var entry = passwd()
            var found: UnsafeMutablePointer<passwd>?
            guard let start = buffer.baseAddress,
                getpwuid_r(user, &entry, start, buffer.count, &found) == 0,
                found != nil, let home = entry.pw_dir
            else { return nil }
            return String(cString: home)
        }
        var status = stat()
        guard let home, home.hasPrefix("/"), stat(home, &status) == 0, status.st_uid == user else {
            return nil
        }
        return home
    }
}

extension ProcessLock {
    /// The lock of a token, which one process has while it chooses a free slot or ID and generates
    /// a key. Waits until it is free.
    ///
    /// - Throws: `locked` if another process has the lock for too long, and `lockUnavailable` if
    ///   the file can't be used.
    static func ofToken(
        _ identity: TokenIdentity, in directory: String? = nil, waitingAtMost limit: Duration
    ) async throws(CryptokiError) -> ProcessLock {
        // The name does not depend on the module, since two modules can use one token.
        let texts = identity.texts
        let parts = [texts.manufacturer, texts.model, texts.serial, identity.fixedLabel]
        let name = digest(parts.map { Data($0?.bytes ?? []).hexadecimal })
        let lock = try ProcessLock("token-\(name)", in: directory)
        let deadline = ContinuousClock.now + limit
        while try !lock.take() {
            if Task.isCancelled { throw .cancelled }
            guard ContinuousClock.now < deadline else {
                throw CryptokiError(
                    .locked, reason: "another process is creating a key on the token")
            }
            try? await Task.sleep(for: .milliseconds(5))
        }
        return lock
    }

    fileprivate static func digest(_ parts: [String]) -> String {
        Data(SHA256.hash(data: Data(parts.joined(separator: "\0").utf8)).prefix(16)).hexadecimal
    }

    /// Identifies pcscd: containers may have their own, with readers of the same names.
    fileprivate static var cardService: String {
        let path = getenv("PCSCLITE_CSOCK_NAME").map { String(cString: $0) }
        var status = stat()
        let isRunning = stat(path ?? "/run/pcscd/pcscd.comm", &status) == 0
        return "\(path ?? "") \(isRunning ? status.st_dev : 0)"
    }
}

/// Keeps the resets of cards apart from the search for cards of all processes: OpenSC 0.23 never
/// returns from `C_Initialize` if a card is reset in the middle.
enum CardSearch {
    /// As long as `C_Initialize` may take.
    private static let limit: Duration = .seconds(10)

    /// Waits while a process resets a card, or waits to do so. The search ends with the returned
    /// object, or after `limit`: a module may never return.
    static func begun(atMost limit: Duration = limit, in directory: String? = nil) -> ProcessLock? {
        let entry = lock("search-entry", LOCK_SH, directory)
        defer { withExtendedLifetime(entry) {} }
        let search = lock("search", LOCK_SH, directory)
        let seconds = Double(limit.components.seconds) + Double(limit.components.attoseconds) / 1e18
        DispatchQueue.global().asyncAfter(deadline: .now() + seconds) { [weak search] in
            search?.release()
        }
        return search
    }

    /// Waits until no process looks for cards. New searches wait until the returned objects are
    /// released, so that the searches of several processes do not prevent a reset.
    static func paused(in directory: String? = nil) -> [ProcessLock] {
        [lock("search-entry", LOCK_EX, directory), lock("search", LOCK_EX, directory)]
            .compactMap(\.self)
    }

    private static func lock(_ name: String, _ kind: Int32, _ directory: String?) -> ProcessLock? {
        let name = "\(name)-\(ProcessLock.digest([ProcessLock.cardService]))"
        guard let lock = try? ProcessLock(name, in: directory) else { return nil }
        lock.wait(for: kind, atMost: limit)
        return lock
    }
}
