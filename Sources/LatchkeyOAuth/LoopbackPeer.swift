internal import Glibc
internal import LatchkeyHTTP
internal import NIOCore

/// The client of a TCP connection within this machine, as the kernel's lists of sockets show it.
///
/// Every local user can connect to a loopback port. The owner of the client's socket decides whether it is answered.
struct LoopbackPeer {
    /// The kernel returns a list in pieces while connections come and go, so one read can miss a row.
    private static let maximumReads = 3

    /// The client's and the server's.
    private let ports: [UInt16]
    /// The addresses and ports of the client's socket: the client's own, then the server's.
    private let ends: [Substring]

    /// - Returns: nil for addresses other than IPv4.
    init?(client: SocketAddress?, server: SocketAddress?) {
        guard case .v4(let client)? = client, case .v4(let server)? = server else { return nil }
        ports = [Self.port(client.address), Self.port(server.address)]
        ends = [Self.end(client.address), Self.end(server.address)]
    }

    private static func port(_ address: sockaddr_in) -> UInt16 { UInt16(bigEndian: address.sin_port) }

    private static func end(_ address: sockaddr_in) -> Substring {
        TCPSocket.end([address.sin_addr.s_addr], port: port(address))
    }

    /// The owner of the client's socket.
    ///
    /// A socket without a row counts as another user's. The owner is unknown only if there are no lists, because `/proc`
    /// is not mounted.
    var owner: PeerOwner {
        for _ in 0..<Self.maximumReads {
            var hasList = false
            for list in TCPSocketList.allCases {
                switch list.first([.established: ports], where: isClient) {
                case .found(let socket): return socket.user == geteuid() ? .thisUser : .otherUser
                case .notFound, .incomplete: hasList = true
                case .missing: break
                }
            }
            guard hasList else { return .unknown }
        }
        return .otherUser
    }

    /// Whether this is the client's socket.
    func isClient(_ socket: TCPSocket) -> Bool {
        socket.own == ends[0] && socket.other == ends[1] && socket.state == .established && socket.isOpen
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
