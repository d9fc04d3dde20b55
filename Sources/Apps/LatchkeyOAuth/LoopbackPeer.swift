internal import Glibc
internal import LatchkeyPlatform

/// The client of a TCP connection within this machine.
///
/// Every local user can connect to a loopback port. The owner of the client's socket decides
/// whether it is answered.
struct LoopbackPeer {
    let client: TCPSocket.End
    let server: TCPSocket.End

    /// The owner of the client's socket. A socket that its program has closed counts as another
    /// user's.
    var owner: PeerOwner {
        switch TCPSocket.find(own: client, other: server) {
        case .found(let socket) where socket.isOpen && !socket.isListening:
            socket.user == geteuid() ? .thisUser : .otherUser(socket.user)
        case .found: .otherUser(nil)
        case .notFound: TCPSocket.isKernelAnswering ? .otherUser(nil) : .unknown
        case .unknown: .unknown
        }
    }
}

extension LoopbackPeer {
    /// - Parameter connection: The server's end.
    /// - Returns: nil for other than IP addresses, and if the client has left.
    init?(connection: Int32) {
        guard let client = TCPSocket.End(peerOf: connection),
            let server = TCPSocket.End(ownOf: connection)
        else { return nil }
        self.init(client: client, server: server)
    }
}

/// The user whose program connected to the loopback port.
enum PeerOwner: Hashable {
    /// The user that runs this process.
    case thisUser
    /// Another user: its ID, or nil if the program has closed its socket.
    case otherUser(UInt32?)
    /// The system does not show the user.
    case unknown
}
