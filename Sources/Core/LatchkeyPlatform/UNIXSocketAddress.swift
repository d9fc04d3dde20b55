package import Glibc

/// The address of a UNIX domain socket in the file system (unix(7)).
package struct UNIXSocketAddress: Sendable {
    /// The maximum length of a path in bytes, without the terminating zero (`sun_path`).
    package static let maximumPathBytes = 107

    private let path: String

    /// The file that ``listeningSocket(queue:)`` locks. It stays in the directory.
    package var lockPath: String { SocketFile.lockPath(of: path) }

    /// - Returns: nil if the path is empty or has more than ``maximumPathBytes`` bytes.
    package init?(path: String) {
        guard (1...Self.maximumPathBytes).contains(path.utf8.count) else { return nil }
        self.path = path
    }

    /// The path to which a socket is bound (getsockname(2)); nil if it has no path.
    package static func path(of socket: Int32) -> String? {
        var address = sockaddr_un()
        var size = socklen_t(MemoryLayout<sockaddr_un>.size)
        let status = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                getsockname(socket, $0, &size)
            }
        }
        guard status == 0, address.sun_family == sa_family_t(AF_UNIX) else { return nil }
        let bytes = withUnsafeBytes(of: &address.sun_path) { Array($0.prefix { $0 != 0 }) }
        return bytes.isEmpty ? nil : String(decoding: bytes, as: UTF8.self)
    }

    /// Calls `body` with a pointer to the address, and the size of the address, for a function of
    /// the C library.
    package func withPointer<R>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> R) -> R {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        return withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
    }

    /// Creates a socket that is connected to the address.
    ///
    /// - Returns: A close-on-exec descriptor, which the caller must close.
    package func connectedSocket(_ type: __socket_type = SOCK_STREAM) throws(SystemError) -> Int32 {
        try socket(type) { connect($0, $1, $2) }
    }

    /// Whether a program accepts connections at the address.
    package var isServed: Bool { (try? attempt()) == true }

    /// Connects for a moment, without waiting for room in the program's queue.
    ///
    /// - Returns: Whether a program listens; false for a socket that no program has open.
    private func attempt() throws(SystemError) -> Bool {
        let type = __socket_type(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue)
        do throws(SystemError) {
            close(try connectedSocket(type))
            return true
        } catch {
            switch error.number {
            case EAGAIN: return true
            case ECONNREFUSED: return false
            default: throw error
            }
        }
    }

    /// Creates a stream socket that is bound to the address, for listen(2).
    ///
    /// - Returns: A close-on-exec descriptor, which the caller must close.
    package func boundSocket() throws(SystemError) -> Int32 {
        try socket(SOCK_STREAM) { bind($0, $1, $2) }
    }

    /// Creates a stream socket to which only this user can connect (mode 0600). Replaces a socket
    /// that no program has open. Of several programs that do this at the same time, one succeeds.
    ///
    /// - Parameter queue: The number of connections that can wait to be accepted.
    /// - Throws: `EADDRINUSE` if a program listens there, or the path is another file's. `EAGAIN`
    ///   if another program keeps ``lockPath`` locked. `EPERM` if other users can open that file.
    package func listeningSocket(queue: Int32) throws(SystemError) -> ListeningSocket {
        // Between bind(2) and listen(2), another program would regard the socket as abandoned.
        let lock = try LockFile(lockPath)
        defer { lock.release() }
        removeAbandoned()
        let descriptor = try boundSocket()
        // No program can connect before listen(2), so the mode is in effect for all connections.
        guard chmod(path, 0o600) == 0, listen(descriptor, queue) == 0,
            let file = SocketFile(path: path)
        else {
            let error = SystemError.last
            close(descriptor)
            unlink(path)
            throw error
        }
        return ListeningSocket(owning: descriptor, removing: file)
    }

    private func removeAbandoned() {
        guard SocketFile(path: path) != nil, (try? attempt()) == false else { return }
        unlink(path)
    }

    private func socket(
        _ type: __socket_type,
        _ attach: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Int32
    ) throws(SystemError) -> Int32 {
        let descriptor = Glibc.socket(AF_UNIX, Int32(type.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw .last }
        guard withPointer({ attach(descriptor, $0, $1) }) == 0 else {
            let error = SystemError.last
            close(descriptor)
            throw error
        }
        return descriptor
    }
}

/// A socket in the file system.
struct SocketFile: Hashable {
    private let path: String
    private let device: dev_t
    private let inode: ino_t

    /// The file that is locked while a program creates or removes the socket.
    static func lockPath(of path: String) -> String { "\(path).lock" }

    /// - Returns: nil if the path is not a socket's.
    init?(path: String) {
        var status = stat()
        guard lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFSOCK else { return nil }
        (self.path, device, inode) = (path, status.st_dev, status.st_ino)
    }

    /// Removes the socket, but not another program's one at the same path.
    func remove() {
        let lock = try? LockFile(Self.lockPath(of: path))
        if SocketFile(path: path) == self { unlink(path) }
        lock?.release()
    }
}

/// An flock(2) on a file beside a socket, which only this user can open. The file stays: a program
/// that removed it could remove the lock of the next one.
private struct LockFile {
    private static let limit: Duration = .seconds(5)
    private let descriptor: Int32

    /// - Throws: `EPERM` for a file that other users can open, and so lock. `EAGAIN` if another
    ///   program keeps it locked.
    init(_ path: String) throws(SystemError) {
        // NFS requires a descriptor that can write.
        descriptor = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .last }
        guard Self.isOwn(descriptor) else {
            close(descriptor)
            throw SystemError(EPERM)
        }
        let deadline = ContinuousClock.now + Self.limit
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
            guard [EWOULDBLOCK, EINTR].contains(errno), .now < deadline else {
                let error = SystemError.last
                close(descriptor)
                throw error
            }
            usleep(2000)
        }
    }

    private static func isOwn(_ descriptor: Int32) -> Bool {
        var status = stat()
        return fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
            && status.st_uid == geteuid() && status.st_mode & 0o077 == 0
    }

    /// A child process may have a copy of the descriptor until its `exec`, which would keep the
    /// lock.
    func release() {
        flock(descriptor, LOCK_UN)
        close(descriptor)
    }
}

extension UNIXSocketAddress {
    /// Whether two paths are of one file now.
    package static func isOneFile(_ path: String, _ other: String) -> Bool {
        var (one, two) = (stat(), stat())
        return path == other
            || stat(path, &one) == 0 && stat(other, &two) == 0
                && (one.st_dev, one.st_ino) == (two.st_dev, two.st_ino)
    }
}
