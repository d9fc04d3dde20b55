import Glibc
import Latchkey
import LatchkeyPlatform

/// The agent's socket: passed by systemd, or created at a path.
final class ListeningSocket: Sendable {
    /// The first descriptor that systemd passes (sd_listen_fds(3)).
    private static let firstPassedDescriptor: Int32 = 3

    let descriptor: Int32
    /// The path; nil for a socket of systemd, which owns the path.
    private let path: String?
    /// For log messages.
    let name: String

    /// - Parameter path: The path to create; nil for the socket that systemd passes.
    /// - Throws: ``KeystoreError`` with code `unavailable` if there is no socket, or it cannot be
    ///   created.
    init(path: String?, environment: [String: String]) throws(KeystoreError) {
        self.path = path
        if let path {
            descriptor = try Self.create(path)
            name = path
        } else {
            descriptor = try Self.passed(environment)
            name = "systemd"
        }
        guard fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK) == 0 else {
            throw Self.unavailable(
                "the socket cannot be used: \(Self.reason(errno))", "Start it again.")
        }
    }

    deinit {
        close(descriptor)
        if let path { unlink(path) }
    }

    private static func passed(_ environment: [String: String]) throws(KeystoreError) -> Int32 {
        guard environment["LISTEN_PID"] == "\(getpid())", environment["LISTEN_FDS"] == "1" else {
            throw unavailable(
                "systemd passed no socket",
                "Start latchkey-agent.socket, or name a path with --socket.")
        }
        let descriptor = firstPassedDescriptor
        var (type, size) = (Int32(0), socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr()
        var addressSize = socklen_t(MemoryLayout<sockaddr>.size)
        guard getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &size) == 0,
            type == Int32(SOCK_STREAM.rawValue),
            getsockname(descriptor, &address, &addressSize) == 0,
            address.sa_family == sa_family_t(AF_UNIX)
        else {
            throw unavailable(
                "the passed descriptor is not a UNIX socket", "Correct latchkey-agent.socket.")
        }
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        return descriptor
    }

    /// Creates the socket with mode 0600 in a directory that only this user and root may write.
    private static func create(_ path: String) throws(KeystoreError) -> Int32 {
        let advice = "Name another path with --socket."
        let directory =
            path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
        var status = stat()
        guard stat(directory, &status) == 0, status.st_mode & S_IFMT == S_IFDIR else {
            throw unavailable("the directory \(directory) does not exist", advice)
        }
        guard [0, geteuid()].contains(status.st_uid), status.st_mode & 0o022 == 0 else {
            throw unavailable("other users can write the directory \(directory)", advice)
        }
        guard let address = UNIXSocketAddress(path: path) else {
            throw unavailable(
                "the path has more than \(UNIXSocketAddress.maximumPathBytes) bytes", advice)
        }
        // A socket that an earlier agent left; one that still accepts connections is not replaced.
        if lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFSOCK {
            if let other = address.connectedSocket() {
                close(other)
                throw unavailable("another program serves \(path)", advice)
            }
            unlink(path)
        }
        guard let descriptor = address.boundSocket() else {
            throw unavailable("\(path) cannot be created: \(reason(errno))", advice)
        }
        guard chmod(path, 0o600) == 0, listen(descriptor, 64) == 0 else {
            let reason = reason(errno)
            close(descriptor)
            throw unavailable("\(path) cannot be used: \(reason)", advice)
        }
        return descriptor
    }

    private static func reason(_ number: Int32) -> String { String(cString: strerror(number)) }

    private static func unavailable(_ reason: String, _ recovery: String) -> KeystoreError {
        KeystoreError(
            operation: "open the agent's socket", code: .unavailable, reason: reason,
            recovery: recovery)
    }
}
