internal import Glibc
internal import LatchkeyPlatform

/// A connection to the loopback port, for one HTTP/1.1 request (RFC 9112) and its response.
struct LoopbackConnection {
    /// The maximum length of the request line and the fields in bytes. Browsers send the cookies of
    /// all servers on this machine, whatever their port.
    static let maximumHeadBytes = 65_536
    /// The maximum number of bytes after the head, which are discarded.
    private static let maximumBodyBytes = 65_536

    /// A non-blocking socket.
    let descriptor: Int32
    /// When the connection ends at the latest.
    let deadline: ContinuousClock.Instant

    /// Answers the request. A connection that ends before a complete request gets no response.
    func serve(_ respond: (RequestLine) -> RedirectReply) {
        var head: [UInt8] = []
        while RequestLine.length(ofHead: head) == nil, head.count < Self.maximumHeadBytes {
            guard let more = receive(atMost: Self.maximumHeadBytes - head.count, until: deadline)
            else { return }
            head += more
        }
        send((RequestLine(head: head).map(respond) ?? .refused).message)
        // With unread bytes, close(2) would reset the connection, and the client could lose the
        // response.
        shutdown(descriptor, Int32(SHUT_WR))
        let end = min(deadline, .now + .seconds(2))
        var count = 0
        while count < Self.maximumBodyBytes, let more = receive(atMost: 4096, until: end) {
            count += more.count
        }
    }

    /// - Returns: nil at the end of the connection and at the deadline.
    private func receive(atMost limit: Int, until deadline: ContinuousClock.Instant) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: limit)
        while ContinuousClock.now < deadline,
            (try? Poll.wait(for: descriptor, POLLIN, until: deadline)) == true
        {
            let count = recv(descriptor, &bytes, limit, 0)
            if count < 0, errno == EAGAIN || errno == EINTR { continue }
            return count > 0 ? Array(bytes.prefix(count)) : nil
        }
        return nil
    }

    private func send(_ bytes: [UInt8]) {
        var rest = bytes[...]
        while !rest.isEmpty, (try? Poll.wait(for: descriptor, POLLOUT, until: deadline)) == true {
            let count = rest.withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            if count < 0, errno == EAGAIN || errno == EINTR { continue }
            guard count > 0 else { return }
            rest = rest.dropFirst(count)
        }
    }
}

/// The first line of a request (RFC 9112 section 3).
struct RequestLine: Hashable {
    let method: Substring
    /// The path and query.
    let target: Substring

    /// The number of bytes before the body; nil if the head is not complete.
    static func length(ofHead bytes: [UInt8]) -> Int? {
        bytes.firstRange(of: Array("\r\n\r\n".utf8))?.upperBound
    }

    /// - Returns: nil if the head is not complete, or is not one of HTTP/1.1 or HTTP/1.0 with a
    ///   target in origin form.
    init?(head: [UInt8]) {
        guard Self.length(ofHead: head) != nil,
            let line = head.split(separator: UInt8(ascii: "\r"), maxSplits: 1).first,
            line.allSatisfy({ (0x20...0x7E).contains($0) })
        else { return nil }
        let parts = String(decoding: line, as: UTF8.self)
            .split(separator: " ", omittingEmptySubsequences: false)
        guard parts.count == 3, !parts[0].isEmpty, parts[1].hasPrefix("/"),
            ["HTTP/1.1", "HTTP/1.0"].contains(parts[2])
        else { return nil }
        (method, target) = (parts[0], parts[1])
    }
}
