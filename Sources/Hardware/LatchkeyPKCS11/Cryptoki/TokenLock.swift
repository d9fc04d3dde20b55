internal import Crypto
internal import FoundationEssentials
internal import Glibc

/// A lock on a token for one process of this user at a time, held while it chooses a free slot or
/// ID and generates a key.
///
/// It is an flock(2) on an empty file. It ends with this object, or if the process ends, when no
/// process has a copy of the descriptor; the file stays. Processes of other users and other
/// programs do not take it.
final class TokenLock {
    private let descriptor: Int32

    /// Waits until the lock is free.
    ///
    /// - Parameter isAbandoned: Whether to stop waiting.
    /// - Throws: `locked` if another process has the lock for too long, and `lockUnavailable` if
    ///   the file can't be used.
    init(
        _ identity: TokenIdentity, directory: String? = nil, waitingAtMost limit: Duration,
        isAbandoned: () -> Bool
    ) throws(CryptokiError) {
        let directory =
            if let directory { directory } else { try Self.directory(among: Self.candidates()) }
        let path = "\(directory)/token-\(Self.name(of: identity)).lock"
        let descriptor = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw CryptokiError(
                .lockUnavailable,
                reason: "\(path) can't be opened: \(String(cString: strerror(errno)))")
        }
        let deadline = ContinuousClock.now + limit
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
            let reason: CryptokiError? =
                if isAbandoned() {
                    .cancelled
                } else if errno != EWOULDBLOCK && errno != EINTR {
                    CryptokiError(
                        .lockUnavailable,
                        reason: "\(path) can't be locked: \(String(cString: strerror(errno)))")
                } else if ContinuousClock.now >= deadline {
                    CryptokiError(.locked, reason: "another process is creating a key on the token")
                } else {
                    nil
                }
            if let reason {
                close(descriptor)
                throw reason
            }
            usleep(5000)
        }
        // The last statement: if the initializer threw after it, `deinit` would close the
        // descriptor a second time.
        self.descriptor = descriptor
    }

    deinit {
        // A child process has a copy of the descriptor until its `exec`, so close(2) alone may
        // leave the lock to that copy.
        flock(descriptor, LOCK_UN)
        close(descriptor)
    }

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

    /// The token's name as a file name. It does not depend on the module, since two modules can use
    /// one token.
    private static func name(of identity: TokenIdentity) -> String {
        let parts = [identity.manufacturer, identity.model, identity.serial, identity.label ?? ""]
        let digest = SHA256.hash(data: Data(parts.joined(separator: "\0").utf8))
        return Data(digest.prefix(16)).hexadecimal
    }
}
