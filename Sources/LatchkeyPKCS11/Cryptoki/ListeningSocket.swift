internal import Glibc

/// A UNIX socket for one connection.
enum ListeningSocket {
    /// The longest path that fits into a socket's address with its terminating zero (`sun_path`, unix(7)), in bytes.
    static let maximumPathBytes = 107

    /// - Returns: the descriptor, closed on exec; the caller closes it.
    static func make(at path: String) throws(CryptokiError) -> Int32 {
        guard path.utf8.count <= maximumPathBytes else { throw .notIsolated("the path of its socket is too long") }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw .notIsolated(String(cString: strerror(errno))) }
        let isBound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
            }
        }
        guard isBound, listen(descriptor, 1) == 0 else {
            let text = String(cString: strerror(errno))
            close(descriptor)
            throw .notIsolated("\(path): \(text)")
        }
        return descriptor
    }
}
