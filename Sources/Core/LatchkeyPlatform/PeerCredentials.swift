internal import CPlatform
internal import Glibc

/// The process at the other end of a UNIX socket, as the kernel recorded it when the connection was
/// made (unix(7), `SO_PEERCRED`). The client sees the process that called listen(2).
package struct PeerCredentials: Hashable, Sendable {
    package let process: Int32
    package let user: UInt32

    /// - Returns: nil if the descriptor is not a connected UNIX socket, or if the kernel does not
    ///   know the user.
    package init?(of connection: Int32) {
        // struct ucred: process, user, group.
        var peer: (process: pid_t, user: uid_t, group: gid_t) = (0, .max, .max)
        let expected = socklen_t(MemoryLayout.size(ofValue: peer))
        var size = expected
        guard getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0, size == expected,
            peer.user != .max
        else { return nil }
        (process, user) = (peer.process, peer.user)
    }
}

/// The process that connected. Until it has ended, its id belongs to no other process, so what the
/// kernel and other services state about the id is about this one.
package final class PeerProcess: Sendable {
    /// Readable after the end of the process.
    package let descriptor: Int32

    /// SO_PEERPIDFD of Linux 6.5, which the headers of Debian 12 do not have.
    private static let peerProcess: Int32 = 77

    /// Before Linux 6.5, this is the process that has the id now.
    ///
    /// - Returns: nil if the process is gone.
    package init?(of connection: Int32, _ peer: PeerCredentials) {
        var (found, size) = (Int32(-1), socklen_t(MemoryLayout<Int32>.size))
        if getsockopt(connection, SOL_SOCKET, Self.peerProcess, &found, &size) != 0 {
            found = errno == ENOPROTOOPT ? latchkey_pidfd_open(peer.process, 0) : -1
        }
        descriptor = found
        guard descriptor >= 0 else { return nil }
    }

    deinit { close(descriptor) }

    package var hasEnded: Bool { (try? Poll.wait(for: descriptor, POLLIN, until: .now)) != false }
}
