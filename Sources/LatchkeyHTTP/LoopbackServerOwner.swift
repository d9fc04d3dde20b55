internal import Glibc

/// The users whose programs listen on a loopback port, and the user whose program accepted a connection to it.
///
/// Plain HTTP does not authenticate a server. On this machine the kernel shows the server's user, so that a port of another
/// user gets no request.
enum LoopbackServerOwner {
    enum Answer: Hashable {
        /// Only root and this user listen there, and no other user has accepted the connection.
        case trusted
        /// Nothing listens there.
        case noListener
        case otherUser(UInt32)
        /// A list of sockets could not be read completely.
        case unknown
    }

    /// - Parameters:
    ///   - host: `localhost`, an IPv4 address, or `::1`, in brackets or not.
    ///   - port: A TCP port.
    ///   - client: The port of a connection from this process. The kernel shows root as the owner of a connection that no
    ///     program has accepted yet. Such a connection belongs to the program that listens.
    static func owner(ofPort port: Int, at host: String, client: Int? = nil) -> Answer {
        guard let port = UInt16(exactly: port) else { return .noListener }
        let ends = Set(addresses(of: host).map { TCPSocket.end($0, port: port) })
        let client = client.flatMap(UInt16.init(exactly:))
        let answers = TCPSocketList.allCases.map { owner(of: ends, port, client, in: $0) }
        return answers.first { $0 != .trusted && $0 != .noListener } ?? answers.first { $0 == .trusted } ?? .noListener
    }

    private static func owner(
        of ends: Set<Substring>, _ port: UInt16, _ client: UInt16?, in list: TCPSocketList
    ) -> Answer {
        var hasListener = false
        var ports: [TCPSocket.State: [UInt16]] = [.listening: [port]]
        if let client { ports[.established] = [port, client] }
        let search = list.first(ports) { socket in
            guard ends.contains(socket.own) else { return false }
            if socket.state == .listening { hasListener = true }
            return socket.user != 0 && socket.user != geteuid()
        }
        switch search {
        case .found(let socket): return .otherUser(socket.user)
        case .notFound: return hasListener ? .trusted : .noListener
        case .incomplete: return .unknown
        // A kernel without IPv6 has no such list.
        case .missing: return list == .ipv6 ? .noListener : .unknown
        }
    }

    /// The addresses that a server for the host can listen on, as words in network byte order.
    private static func addresses(of host: String) -> [[UInt32]] {
        let host = host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host
        var addresses: [[UInt32]] = [[0], [0, 0, 0, 0]]
        var address = in_addr()
        if inet_pton(AF_INET, host == "localhost" ? "127.0.0.1" : host, &address) == 1 {
            addresses.append([address.s_addr])
        }
        if host == "localhost" || host == "::1" { addresses.append([0, 0, 0, UInt32(1).bigEndian]) }
        return addresses
    }
}
