internal import FoundationEssentials
internal import Glibc

/// The users whose programs listen on a loopback port, from the kernel's lists of sockets (proc(5), `/proc/net/tcp` and
/// `/proc/net/tcp6`).
///
/// Plain HTTP does not authenticate a server. On this machine the kernel shows the server's user, so that a port of another
/// user gets no request.
enum LoopbackServerOwner {
    /// The maximum number of bytes that are read from a list, about 100,000 sockets, which other users can open.
    private static let maximumBytes = 16 << 20
    /// `TCP_LISTEN`.
    private static let listening: Substring = "0A"

    enum Answer: Hashable {
        /// Only root and this user listen there.
        case trusted
        /// Nothing listens there.
        case noListener
        case otherUser(UInt32)
        /// A list could not be read completely.
        case unknown
    }

    /// - Parameters:
    ///   - host: `localhost`, an IPv4 address, or `::1`, in brackets or not.
    ///   - port: A TCP port.
    static func owner(ofPort port: Int, at host: String) -> Answer {
        guard let port = UInt16(exactly: port) else { return .noListener }
        let ends = Set(addresses(of: host).map { "\($0):\(hexadecimal(UInt32(port), digits: 4))"[...] })
        let answers = ["/proc/net/tcp", "/proc/net/tcp6"].map { owner(of: ends, in: $0) }
        return answers.first { $0 != .trusted && $0 != .noListener } ?? answers.first { $0 == .trusted } ?? .noListener
    }

    /// - Parameter ends: Addresses and ports in the format of the list.
    private static func owner(of ends: Set<Substring>, in path: String) -> Answer {
        guard let file = fopen(path, "re") else {
            // A kernel without IPv6 has no such list.
            return errno == ENOENT && path.hasSuffix("6") ? .noListener : .unknown
        }
        defer { fclose(file) }
        var hasListener = false
        var line = [CChar](repeating: 0, count: 512)
        var bytesLeft = maximumBytes
        while fgets(&line, Int32(line.count), file) != nil {
            let text = String(decoding: line.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
            bytesLeft -= text.utf8.count
            guard bytesLeft > 0 else { return .unknown }
            // Columns: number, own address, other address, state, queues, timer, retransmissions, user ID.
            let columns = text.split(separator: " ", maxSplits: 8, omittingEmptySubsequences: true)
            guard columns.count > 8, columns[3] == listening, ends.contains(columns[1]), let user = UInt32(columns[7])
            else { continue }
            if user != 0, user != geteuid() { return .otherUser(user) }
            hasListener = true
        }
        guard ferror(file) == 0 else { return .unknown }
        return hasListener ? .trusted : .noListener
    }

    /// The addresses that a server for the host can listen on, in the kernel's format: words of 32 bits in the machine's byte
    /// order.
    private static func addresses(of host: String) -> Set<String> {
        let host = host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host
        let wildcards = [words([0]), words([0, 0, 0, 0])]
        var own: [String] = []
        var address = in_addr()
        if inet_pton(AF_INET, host == "localhost" ? "127.0.0.1" : host, &address) == 1 {
            own += [words([address.s_addr]), words([0, 0, UInt32(0xFFFF).bigEndian, address.s_addr])]
        }
        if host == "localhost" || host == "::1" { own.append(words([0, 0, 0, UInt32(1).bigEndian])) }
        return Set(wildcards + own)
    }

    private static func words(_ words: [UInt32]) -> String {
        words.map { hexadecimal($0, digits: 8) }.joined()
    }

    private static func hexadecimal(_ number: UInt32, digits: Int) -> String {
        let text = String(number, radix: 16, uppercase: true)
        return String(repeating: "0", count: max(0, digits - text.count)) + text
    }
}
