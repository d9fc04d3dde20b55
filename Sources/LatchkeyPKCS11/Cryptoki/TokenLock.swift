internal import Crypto
internal import FoundationEssentials
internal import Glibc

/// A lock that one process of this user has at a time for a token, while it looks for a free place there and generates a
/// key in it.
///
/// It is an flock(2) on an empty file, so it ends with the process; the file stays. Processes of other users and other
/// programs do not take it.
final class TokenLock {
    private let descriptor: Int32

    /// Waits until the lock is free.
    ///
    /// - Parameter isAbandoned: Whether the wait is to end.
    /// - Throws: `locked` when another process has it all that time, or when there is no directory for the file.
    init(
        _ identity: TokenIdentity, directory: String? = nil, patience: Duration, isAbandoned: () -> Bool
    ) throws(CryptokiError) {
        let directory = if let directory { directory } else { try Self.makeDirectory() }
        let path = "\(directory)/token-\(Self.name(of: identity)).lock"
        descriptor = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw CryptokiError(.locked, reason: "\(path) can't be opened: \(String(cString: strerror(errno)))")
        }
        let deadline = ContinuousClock.now + patience
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
            let reason: CryptokiError? =
                if isAbandoned() {
                    CryptokiError(.cancelled, reason: "it was cancelled")
                } else if errno != EWOULDBLOCK && errno != EINTR {
                    CryptokiError(.locked, reason: "\(path) can't be locked: \(String(cString: strerror(errno)))")
                } else if ContinuousClock.now >= deadline {
                    CryptokiError(.locked, reason: "another process is making a key on the token")
                } else {
                    nil
                }
            if let reason {
                close(descriptor)
                throw reason
            }
            usleep(5000)
        }
    }

    deinit { close(descriptor) }

    /// Does not depend on the environment, so that all processes of the user agree on it.
    private static func makeDirectory() throws(CryptokiError) -> String {
        let user = geteuid()
        if isPrivate("/run/user/\(user)") { return "/run/user/\(user)" }
        let path = user == 0 ? "/run/latchkey-locks" : "/tmp/latchkey-locks-\(user)"
        mkdir(path, 0o700)
        guard isPrivate(path) else {
            throw CryptokiError(.locked, reason: "\(path) is not a directory that only this user can write")
        }
        return path
    }

    private static func isPrivate(_ path: String) -> Bool {
        var status = stat()
        return lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR && status.st_uid == geteuid()
            && status.st_mode & (S_IWGRP | S_IWOTH) == 0
    }

    /// The token's name without characters that a file can't have. Its module does not count: two can serve one token.
    private static func name(of identity: TokenIdentity) -> String {
        let parts = [identity.manufacturer, identity.model, identity.serial, identity.label ?? ""]
        let digest = SHA256.hash(data: Data(parts.joined(separator: "\0").utf8))
        return Data(digest.prefix(16)).hexadecimal
    }
}
