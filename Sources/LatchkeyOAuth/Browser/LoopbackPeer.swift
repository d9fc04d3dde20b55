internal import Glibc
internal import NIOCore

/// The other end of a TCP connection within this machine, as the kernel's lists of sockets show it (proc(5),
/// `/proc/net/tcp` and `/proc/net/tcp6`).
///
/// Any user can connect to a loopback port. What is meant for one user's programs has to ask whose socket it talks to.
struct LoopbackPeer {
    /// The most bytes of a list that are looked at: some 100 000 connections.
    private static let maximumBytes = 16 << 20
    /// A list is read piece by piece while connections come and go, so a row can be missed.
    private static let maximumLooks = 3
    /// `TCP_ESTABLISHED`. A socket in any other state may have been closed, and the kernel then shows root as its owner.
    private static let established: Substring = "01"

    /// What the socket at the other end has in its row: its own address and port, then ours.
    private let ends: [Substring]
    /// The beginning of the row after the address: the other end's own port.
    private let port: String

    /// - Returns: nil for addresses other than IPv4's.
    init?(client: SocketAddress?, server: SocketAddress?) {
        guard case .v4(let client)? = client, case .v4(let server)? = server else { return nil }
        ends = [Self.end(client.address), Self.end(server.address)]
        port = ":\(ends[0].suffix(4)) "
    }

    /// Whose socket the other end is.
    ///
    /// A row that can't be found is somebody else's. Only where there are no lists at all, because `/proc` is not
    /// mounted, nothing can be known.
    var owner: PeerOwner {
        for _ in 0..<Self.maximumLooks {
            var hasList = false
            for path in ["/proc/net/tcp", "/proc/net/tcp6"] {
                switch row(in: path) {
                case .user(let uid): return uid == geteuid() ? .us : .somebodyElse
                case .notFound: hasList = true
                case .noList: break
                }
            }
            guard hasList else { return .unknowable }
        }
        return .somebodyElse
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
            // Most rows are of other connections, which every user can make many of.
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

    /// The socket's owner, if the row is the one of the other end.
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

    /// The kernel prints an address as one number in the machine's byte order, and a port as it is.
    private static func end(_ address: sockaddr_in) -> Substring {
        hexadecimal(address.sin_addr.s_addr, digits: 8) + ":"
            + hexadecimal(UInt32(UInt16(bigEndian: address.sin_port)), digits: 4)
    }

    /// An IPv6 socket can connect to an IPv4 address, which is then mapped into its own (RFC 4291 section 2.5.5.2).
    private static func unmapped(_ end: Substring) -> Substring {
        let prefix = "0000000000000000" + hexadecimal(UInt32(0xFFFF).bigEndian, digits: 8)
        return end.hasPrefix(prefix) ? end.dropFirst(prefix.count) : end
    }

    private static func hexadecimal(_ number: UInt32, digits: Int) -> Substring {
        let text = String(number, radix: 16, uppercase: true)
        return Substring(String(repeating: "0", count: max(0, digits - text.count)) + text)
    }
}
