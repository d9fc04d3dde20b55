internal import Glibc
internal import NIOCore

/// The client of a TCP connection within this machine, as the kernel's lists of sockets show it (proc(5),
/// `/proc/net/tcp` and `/proc/net/tcp6`).
///
/// Every local user can connect to a loopback port. The owner of the client's socket decides whether it is answered.
struct LoopbackPeer {
    /// The maximum number of bytes that are read from a list, about 100,000 connections.
    private static let maximumBytes = 16 << 20
    /// The kernel returns a list in pieces while connections come and go, so one read can miss a row.
    private static let maximumReads = 3
    /// `TCP_ESTABLISHED`. A socket in any other state may be closed, and the kernel then shows root as its owner.
    private static let established: Substring = "01"

    /// The addresses and ports in the row of the client's socket: the client's own, then the server's.
    private let ends: [Substring]
    /// The client's port as the row contains it after the address.
    private let port: String

    /// - Returns: nil for addresses other than IPv4.
    init?(client: SocketAddress?, server: SocketAddress?) {
        guard case .v4(let client)? = client, case .v4(let server)? = server else { return nil }
        ends = [Self.end(client.address), Self.end(server.address)]
        port = ":\(ends[0].suffix(4)) "
    }

    /// The owner of the client's socket.
    ///
    /// A socket without a row counts as another user's. The owner is unknown only if there are no lists, because `/proc`
    /// is not mounted.
    var owner: PeerOwner {
        for _ in 0..<Self.maximumReads {
            var hasList = false
            for path in ["/proc/net/tcp", "/proc/net/tcp6"] {
                switch row(in: path) {
                case .user(let uid): return uid == geteuid() ? .thisUser : .otherUser
                case .notFound: hasList = true
                case .noList: break
                }
            }
            guard hasList else { return .unknown }
        }
        return .otherUser
    }

    private enum Row {
        case user(uid_t)
        case notFound
        case noList
    }

    private func row(in path: String) -> Row {
        guard let file = fopen(path, "re") else { return errno == ENOENT ? .noList : .notFound }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 512)
        var bytesLeft = Self.maximumBytes
        while bytesLeft > 0, fgets(&line, Int32(line.count), file) != nil {
            // Any user can make many connections, so rows of other ports are skipped before they are parsed.
            guard strstr(line, port) != nil else {
                bytesLeft -= strlen(line)
                continue
            }
            let text = String(decoding: line.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
            bytesLeft -= text.utf8.count
            if let uid = owner(inRow: text) { return .user(uid) }
        }
        return .notFound
    }

    /// The socket's owner, if the row is that of the client's socket.
    ///
    /// The columns: number, own address, other address, state, queues, timer, retransmissions, uid, probes, inode.
    func owner(inRow row: String) -> uid_t? {
        let columns = row.split(separator: " ", maxSplits: 10, omittingEmptySubsequences: true)
        guard
            columns.count > 9, Self.unmapped(columns[1]) == ends[0], Self.unmapped(columns[2]) == ends[1],
            columns[3] == Self.established, columns[9] != "0"
        else { return nil }
        return uid_t(columns[7])
    }

    /// The kernel prints an address as one number in the machine's byte order, and a port in its numeric value.
    private static func end(_ address: sockaddr_in) -> Substring {
        hexadecimal(address.sin_addr.s_addr, digits: 8) + ":"
            + hexadecimal(UInt32(UInt16(bigEndian: address.sin_port)), digits: 4)
    }

    /// An IPv6 socket can connect to an IPv4 address. The address is then mapped (RFC 4291 section 2.5.5.2).
    private static func unmapped(_ end: Substring) -> Substring {
        let prefix = "0000000000000000" + hexadecimal(UInt32(0xFFFF).bigEndian, digits: 8)
        return end.hasPrefix(prefix) ? end.dropFirst(prefix.count) : end
    }

    private static func hexadecimal(_ number: UInt32, digits: Int) -> Substring {
        let text = String(number, radix: 16, uppercase: true)
        return Substring(String(repeating: "0", count: max(0, digits - text.count)) + text)
    }
}

/// The user whose program connected to the loopback port.
enum PeerOwner {
    /// The user that runs this process.
    case thisUser
    case otherUser
    /// The system does not show the user.
    case unknown

    /// Whether the peer is certainly a program of this user; nil for a peer of another user.
    var isKnown: Bool? {
        switch self {
        case .thisUser: true
        case .otherUser: nil
        case .unknown: false
        }
    }
}
