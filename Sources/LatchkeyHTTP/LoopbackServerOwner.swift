internal import Glibc

/// The users whose programs listen on a loopback port.
///
/// Plain HTTP does not authenticate a server. On this machine the kernel shows the server's user, so that a port of another
/// user gets no request.
enum LoopbackServerOwner {
    enum Answer: Hashable {
        /// Only root and this user listen there.
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
    static func owner(ofPort port: Int, at host: String) -> Answer {
        guard let port = UInt16(exactly: port) else { return .noListener }
        let ends = Set(addresses(of: host).map { TCPSocket.end($0, port: port) })
        let answers = TCPSocketList.allCases.map { owner(of: ends, port, in: $0) }
        return answers.first { $0 != .trusted && $0 != .noListener } ?? answers.first { $0 == .trusted } ?? .noListener
    }

    private static func owner(of ends: Set<Substring>, _ port: UInt16, in list: TCPSocketList) -> Answer {
        var hasListener = false
        let search = list.first(.listening, port: port) { socket in
            guard ends.contains(socket.own) else { return false }
            hasListener = true
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
