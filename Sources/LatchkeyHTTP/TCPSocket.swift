internal import Glibc

/// A TCP socket of this machine, as the kernel lists it (proc(5), `/proc/net/tcp` and `/proc/net/tcp6`).
package struct TCPSocket {
    package enum State: Substring {
        /// `TCP_ESTABLISHED`. A socket in another state than these may be closed; the kernel then shows root as its owner.
        case established = "01"
        /// `TCP_LISTEN`.
        case listening = "0A"
    }

    /// Its own address and port, in the format of ``end(_:port:)``.
    package let own: Substring
    /// The address and port of the other end.
    package let other: Substring
    package let state: State?
    /// The user ID of its owner.
    package let user: UInt32
    /// Whether a program has the socket open.
    package let isOpen: Bool

    /// - Parameter row: The columns: number, own address, other address, state, queues, timer, retransmissions, user ID,
    ///   probes, inode.
    package init?(row: String) {
        let columns = row.split(separator: " ", maxSplits: 10, omittingEmptySubsequences: true)
        guard columns.count > 9, let user = UInt32(columns[7]) else { return nil }
        own = Self.unmapped(columns[1])
        other = Self.unmapped(columns[2])
        state = State(rawValue: columns[3])
        self.user = user
        isOpen = columns[9] != "0"
    }

    /// An address and a port in the format of the lists.
    ///
    /// - Parameters:
    ///   - address: The words of 32 bits in network byte order: one for IPv4, four for IPv6.
    ///   - port: The port.
    package static func end(_ address: [UInt32], port: UInt16) -> Substring {
        address.map { hexadecimal($0, digits: 8) }.joined() + ":" + hexadecimal(UInt32(port), digits: 4)[...]
    }

    /// An IPv6 socket can use an IPv4 address. The address is then mapped (RFC 4291 section 2.5.5.2).
    private static func unmapped(_ end: Substring) -> Substring {
        let prefix = "0000000000000000" + hexadecimal(UInt32(0xFFFF).bigEndian, digits: 8)
        return end.hasPrefix(prefix) ? end.dropFirst(prefix.count) : end
    }

    fileprivate static func hexadecimal(_ number: UInt32, digits: Int) -> String {
        let text = String(number, radix: 16, uppercase: true)
        return String(repeating: "0", count: max(0, digits - text.count)) + text
    }
}

/// The kernel's lists of TCP sockets.
package enum TCPSocketList: String, CaseIterable {
    case ipv4 = "/proc/net/tcp"
    case ipv6 = "/proc/net/tcp6"

    /// The maximum number of bytes that are read from a list, about 100,000 sockets, which other users can open.
    private static let maximumBytes = 16 << 20

    package enum Search {
        case found(TCPSocket)
        case notFound
        /// The list could not be read completely.
        case incomplete
        /// There is no such list: the kernel has no IPv6, or `/proc` is not mounted.
        case missing
    }

    /// Searches the list for a socket.
    ///
    /// - Parameters:
    ///   - ports: The wanted states, with the ports that a socket of this state has at one end or the other.
    ///   - isWanted: Whether a socket with this state and these ports is the wanted one.
    package func first(_ ports: [TCPSocket.State: [UInt16]], where isWanted: (TCPSocket) -> Bool) -> Search {
        guard let file = fopen(rawValue, "re") else { return errno == ENOENT ? .missing : .incomplete }
        defer { fclose(file) }
        let columns = ports.map { state, ports in
            [" \(state.rawValue) "] + ports.map { ":\(TCPSocket.hexadecimal(UInt32($0), digits: 4)) " }
        }
        var line = [CChar](repeating: 0, count: 512)
        var bytesLeft = Self.maximumBytes
        while fgets(&line, Int32(line.count), file) != nil {
            bytesLeft -= strlen(line)
            guard bytesLeft > 0 else { return .incomplete }
            // Any user can make many connections, so rows of other ports and states are skipped before they are parsed.
            guard columns.contains(where: { $0.allSatisfy { strstr(line, $0) != nil } }) else { continue }
            let row = String(decoding: line.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
            guard let socket = TCPSocket(row: row), let state = socket.state, ports[state] != nil else { continue }
            if isWanted(socket) { return .found(socket) }
        }
        return ferror(file) == 0 ? .notFound : .incomplete
    }
}
