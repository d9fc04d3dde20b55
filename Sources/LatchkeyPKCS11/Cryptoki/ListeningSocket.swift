internal import CPKCS11
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

    /// Waits for a connection that this process made itself (`SO_PEERCRED`, unix(7)). Others are turned away.
    ///
    /// - Returns: the connection, closed on exec; nil when the socket was shut down. The caller closes it.
    static func acceptOurselves(_ descriptor: Int32) -> Int32? {
        while true {
            let connection = latchkey_accept4(descriptor, nil, nil, Int32(SOCK_CLOEXEC.rawValue))
            if connection < 0, errno == EINTR { continue }
            guard connection >= 0 else { return nil }
            // struct ucred: process, user, group.
            var peer: (process: pid_t, user: uid_t, group: gid_t) = (0, .max, .max)
            var size = socklen_t(MemoryLayout.size(ofValue: peer))
            let isKnown = getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0
            if isKnown, peer.process == getpid(), peer.user == geteuid() { return connection }
            close(connection)
        }
    }
}
