package import Glibc

/// The address of a UNIX domain socket in the file system (unix(7)).
package struct UNIXSocketAddress: Sendable {
    /// The maximum length of a path in bytes, without the terminating zero (`sun_path`).
    package static let maximumPathBytes = 107

    private var address = sockaddr_un()

    /// - Returns: nil if the path is empty or has more than ``maximumPathBytes`` bytes.
    package init?(path: String) {
        guard (1...Self.maximumPathBytes).contains(path.utf8.count) else { return nil }
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
    }

    /// Calls `body` with a pointer to the address, and the size of the address, for a function of
    /// the C library.
    package func withPointer<R>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> R) -> R {
        withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
    }

    /// Creates a stream socket that is connected to the address.
    ///
    /// - Returns: A close-on-exec descriptor, which the caller must close; nil on failure, with the
    ///   reason in `errno`.
    package func connectedSocket() -> Int32? { streamSocket { connect($0, $1, $2) } }

    /// Creates a stream socket that is bound to the address, for listen(2).
    ///
    /// - Returns: A close-on-exec descriptor, which the caller must close; nil on failure, with the
    ///   reason in `errno`.
    package func boundSocket() -> Int32? { streamSocket { bind($0, $1, $2) } }

    private func streamSocket(_ attach: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Int32)
        -> Int32?
    {
        let descriptor = socket(
            AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return nil }
        guard withPointer({ attach(descriptor, $0, $1) }) == 0 else {
            let reason = errno
            close(descriptor)
            errno = reason
            return nil
        }
        return descriptor
    }
}
