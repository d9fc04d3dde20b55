internal import Glibc
internal import LatchkeyPlatform

/// The user whose program accepts a connection to a loopback port.
///
/// Plain HTTP does not authenticate a server. On this machine the kernel shows the server's user,
/// so that another user's program gets no request.
enum LoopbackServerOwner: Hashable {
    /// Root or this user.
    case trusted
    /// Nothing listens there.
    case noListener
    case otherUser(UInt32)
    /// The kernel does not show the user.
    case unknown

    /// The owner of the server's end of a connection from this process. The kernel shows no owner
    /// until a program accepts the connection, and only the program that listens can accept it.
    init(of server: TCPSocket.End, connectedTo client: TCPSocket.End) {
        switch TCPSocket.find(own: server, other: client) {
        case .found(let socket) where socket.isOpen: self.init(socket)
        case .found: self.init(listeningAt: server)
        case .notFound, .unknown: self = .unknown
        }
    }

    /// The owner of the socket that accepts connections from this machine.
    init(listeningAt server: TCPSocket.End) {
        switch TCPSocket.find(own: server, other: server) {
        case .found(let socket) where socket.isOpen: self.init(socket)
        case .found: self = .unknown
        case .notFound: self = TCPSocket.isKernelAnswering ? .noListener : .unknown
        case .unknown: self = .unknown
        }
    }

    private init(_ socket: TCPSocket) {
        self = socket.user == 0 || socket.user == geteuid() ? .trusted : .otherUser(socket.user)
    }
}
