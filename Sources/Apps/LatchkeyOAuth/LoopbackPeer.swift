internal import Glibc
internal import NIOCore

/// The client of a TCP connection within this machine.
///
/// Every local user can connect to a loopback port. The owner of the client's socket decides
/// whether it is answered.
struct LoopbackPeer {
    private let client: TCPSocket.End
    private let server: TCPSocket.End

    /// - Returns: nil for other than IP addresses.
    init?(client: SocketAddress?, server: SocketAddress?) {
        func end(_ address: SocketAddress?) -> TCPSocket.End? {
            guard let host = address?.ipAddress, let port = address?.port else { return nil }
            return TCPSocket.End(host, port: port)
        }
        guard let client = end(client), let server = end(server) else { return nil }
        (self.client, self.server) = (client, server)
    }

    /// The owner of the client's socket. A socket that its program has closed counts as another
    /// user's.
    var owner: PeerOwner {
        switch TCPSocket.find(own: client, other: server) {
        case .found(let socket) where socket.isOpen && !socket.isListening:
            socket.user == geteuid() ? .thisUser : .otherUser
        case .found: .otherUser
        case .notFound: TCPSocket.isKernelAnswering ? .otherUser : .unknown
        case .unknown: .unknown
        }
    }
}

/// The user whose program connected to the loopback port.
enum PeerOwner {
    /// The user that runs this process.
    case thisUser
    case otherUser
    /// The system does not show the user.
    case unknown
}
