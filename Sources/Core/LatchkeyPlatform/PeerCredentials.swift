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
