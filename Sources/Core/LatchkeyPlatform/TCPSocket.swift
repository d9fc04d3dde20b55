internal import CPlatform
internal import Glibc

/// A TCP socket of this machine, as the kernel describes it (sock_diag(7)). Any user may ask for
/// every socket.
package struct TCPSocket {
    /// The user ID of its owner. 0 for a connection that no program has accepted yet, and for one
    /// that its program has closed.
    package let user: UInt32
    /// Whether a program has the socket open.
    package let isOpen: Bool
    /// Whether the socket accepts connections.
    package let isListening: Bool

    /// An IP address and a port.
    package struct End {
        fileprivate let family: Int32
        /// In network byte order, 4 or 16 bytes.
        fileprivate let address: [UInt8]
        package let port: UInt16

        /// - Parameter address: An IPv4 or IPv6 address, without brackets.
        /// - Returns: nil if the text is no address, or if the port has more than 16 bits.
        package init?(_ address: String, port: Int) {
            guard let port = UInt16(exactly: port) else { return nil }
            self.port = port
            for (family, length) in [(AF_INET, 4), (AF_INET6, 16)] {
                var bytes = [UInt8](repeating: 0, count: length)
                guard inet_pton(family, address, &bytes) == 1 else { continue }
                (self.family, self.address) = (family, bytes)
                return
            }
            return nil
        }

        /// The address to which a socket is bound; nil for other than IP addresses.
        package init?(ownOf socket: Int32) { self.init(socket, getsockname) }

        /// The address of the other end of a connection.
        package init?(peerOf connection: Int32) { self.init(connection, getpeername) }

        private init?(
            _ socket: Int32,
            _ read: (Int32, UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) ->
                Int32
        ) {
            // The larger of the two structures.
            var storage = sockaddr_in6()
            var length = socklen_t(MemoryLayout<sockaddr_in6>.size)
            let end = withUnsafeMutableBytes(of: &storage) { bytes -> TCPSocket.End? in
                let status = bytes.withMemoryRebound(to: sockaddr.self) {
                    $0.baseAddress.map { read(socket, $0, &length) }
                }
                guard status == 0 else { return nil }
                let port = UInt16(bigEndian: bytes.load(fromByteOffset: 2, as: UInt16.self))
                switch Int32(bytes.load(as: sa_family_t.self)) {
                case AF_INET: return End(AF_INET, Array(bytes[4..<8]), port)
                case AF_INET6: return End(AF_INET6, Array(bytes[8..<24]), port)
                default: return nil
                }
            }
            guard let end else { return nil }
            self = end
        }

        private init(_ family: Int32, _ address: [UInt8], _ port: UInt16) {
            (self.family, self.address, self.port) = (family, address, port)
        }

        /// Whether the address is this machine's: `127.0.0.0/8` or `::1`.
        package var isLoopback: Bool {
            family == AF_INET ? address[0] == 127 : address == Array(repeating: 0, count: 15) + [1]
        }
    }

    package enum Search {
        case found(TCPSocket)
        /// There is no such socket, or the kernel has no module `tcp_diag`; see
        /// ``isKernelAnswering``.
        case notFound
        /// The kernel does not answer the question, for example because a sandbox forbids it.
        case unknown
    }

    /// The socket of a connection, or, without that connection, the socket that accepts connections
    /// from `other` at `own`.
    package static func find(own: End, other: End) -> Search {
        let descriptor = socket(
            AF_NETLINK, Int32(SOCK_RAW.rawValue) | Int32(SOCK_CLOEXEC.rawValue), NETLINK_SOCK_DIAG)
        guard descriptor >= 0 else { return .unknown }
        defer { close(descriptor) }
        var question = Question(own: own, other: other)
        guard
            send(descriptor, &question, MemoryLayout<Question>.size, 0)
                == MemoryLayout<Question>.size
        else {
            return .unknown
        }
        // The kernel has put the answer into the queue before `send` returned.
        var answer = [UInt8](repeating: 0, count: 4096)
        let count = recv(descriptor, &answer, answer.count, Int32(MSG_DONTWAIT))
        guard count > 0 else { return .unknown }
        return answer.withUnsafeBytes {
            Self.search(in: UnsafeRawBufferPointer(rebasing: $0[..<count]))
        }
    }

    private static func search(in answer: UnsafeRawBufferPointer) -> Search {
        let head = MemoryLayout<nlmsghdr>.size
        guard answer.count >= head else { return .unknown }
        let body = UnsafeRawBufferPointer(rebasing: answer[head...])
        switch Int32(answer.loadUnaligned(as: nlmsghdr.self).nlmsg_type) {
        case NLMSG_ERROR where body.count >= MemoryLayout<Int32>.size:
            return body.loadUnaligned(as: Int32.self) == -ENOENT ? .notFound : .unknown
        case SOCK_DIAG_BY_FAMILY where body.count >= MemoryLayout<inet_diag_msg>.size:
            let message = body.loadUnaligned(as: inet_diag_msg.self)
            return .found(
                TCPSocket(
                    user: message.idiag_uid, isOpen: message.idiag_inode != 0,
                    isListening: Int(message.idiag_state) == Self.listening))
        default: return .unknown
        }
    }

    /// `TCP_LISTEN`.
    private static let listening = 10

    /// Whether the kernel finds a socket that exists.
    package static let isKernelAnswering = findsListener()

    private static func findsListener() -> Bool {
        guard let listener = try? ListeningSocket.loopback(queue: 0),
            let own = End(ownOf: listener.descriptor), case .found = find(own: own, other: own)
        else { return false }
        return true
    }
}

/// A request of sock_diag(7) for one socket.
private struct Question {
    var head = nlmsghdr()
    var body = inet_diag_req_v2()

    init(own: TCPSocket.End, other: TCPSocket.End) {
        head.nlmsg_len = UInt32(MemoryLayout<nlmsghdr>.size + MemoryLayout<inet_diag_req_v2>.size)
        head.nlmsg_type = UInt16(SOCK_DIAG_BY_FAMILY)
        head.nlmsg_flags = UInt16(NLM_F_REQUEST)
        body.sdiag_family = UInt8(own.family)
        body.sdiag_protocol = UInt8(IPPROTO_TCP)
        body.idiag_states = .max
        body.id.idiag_sport = own.port.bigEndian
        body.id.idiag_dport = other.port.bigEndian
        withUnsafeMutableBytes(of: &body.id.idiag_src) { $0.copyBytes(from: own.address) }
        withUnsafeMutableBytes(of: &body.id.idiag_dst) { $0.copyBytes(from: other.address) }
        // INET_DIAG_NOCOOKIE
        body.id.idiag_cookie = (.max, .max)
    }
}
