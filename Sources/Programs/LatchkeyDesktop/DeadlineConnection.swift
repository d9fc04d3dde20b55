internal import Glibc
package import Latchkey
package import LatchkeyPlatform

/// The exchange of bytes at a connected socket, whose calls all end at one deadline. Blocks its
/// thread. Does not own the descriptor.
package struct DeadlineStream: Sendable {
    package enum Failure: Error {
        /// No program listens.
        case absent
        case late
        case closed
        case system(SystemError)
    }

    let descriptor: Int32
    private let deadline: ContinuousClock.Instant

    package init(_ descriptor: Int32, until deadline: ContinuousClock.Instant) {
        (self.descriptor, self.deadline) = (descriptor, deadline)
    }

    package func send(_ bytes: SecretBytes) throws(Failure) {
        try bytes.withUnsafeBytes { (bytes) throws(Failure) in
            var rest = bytes[...]
            while !rest.isEmpty {
                let part = UnsafeRawBufferPointer(rebasing: rest)
                let count = Glibc.send(
                    descriptor, part.baseAddress, part.count,
                    Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
                if count > 0 {
                    rest = rest.dropFirst(count)
                } else {
                    try waitAfterError(for: POLLOUT)
                }
            }
        }
    }

    /// Receives bytes until the buffer is full.
    func receive(into buffer: UnsafeMutableRawBufferPointer) throws(Failure) {
        var length = 0
        while length < buffer.count {
            length += try receiveSome(into: .init(rebasing: buffer[length...]))
        }
    }

    /// Receives one line: what arrives until the last byte ends a line. Bytes after the line, which
    /// answer what was not asked, become a part of it.
    ///
    /// - Parameter maximum: The length of the line without its end.
    /// - Returns: The line without its end.
    package func receiveLine(maximum: Int) throws(Failure) -> SecretBytes {
        var length = 0
        var isComplete = false
        let buffer = try SecretBytes(count: maximum + 1) { (buffer) throws(Failure) in
            while !isComplete, length < buffer.count {
                length += try receiveSome(into: .init(rebasing: buffer[length...]))
                isComplete = buffer[length - 1] == UInt8(ascii: "\n")
            }
        }
        guard isComplete else { throw .system(SystemError(EPROTO)) }
        return buffer.part(0..<(length - 1))
    }

    /// Receives the bytes that are there, after a wait for the first.
    private func receiveSome(into buffer: UnsafeMutableRawBufferPointer) throws(Failure) -> Int {
        while true {
            let count = recv(descriptor, buffer.baseAddress, buffer.count, Int32(MSG_DONTWAIT))
            if count > 0 { return count }
            guard count < 0 else { throw .closed }
            try waitAfterError(for: POLLIN)
        }
    }

    private func waitAfterError(for events: Int32) throws(Failure) {
        switch errno {
        case EAGAIN, EINTR: break
        case EPIPE, ECONNRESET: throw .closed
        default: throw .system(.last)
        }
        let isReady: Bool
        do throws(SystemError) {
            isReady = try Poll.wait(for: descriptor, events, until: deadline)
        } catch {
            throw .system(error)
        }
        guard isReady else { throw .late }
    }
}

/// A connection to a socket of another program, which this one closes. Connecting has the deadline
/// too.
struct DeadlineConnection: ~Copyable {
    let stream: DeadlineStream

    init(_ path: String, until deadline: ContinuousClock.Instant) throws(DeadlineStream.Failure) {
        guard let address = UNIXSocketAddress(path: path) else {
            throw .system(SystemError(ENAMETOOLONG))
        }
        let type = __socket_type(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue)
        while true {
            do throws(SystemError) {
                stream = DeadlineStream(try address.connectedSocket(type), until: deadline)
                return
            } catch {
                switch error.number {
                case ENOENT, ECONNREFUSED: throw .absent
                // The queue of the program is full. The wait is short, because nothing reports room.
                case EAGAIN, EINTR:
                    guard .now < deadline else { throw .late }
                    _ = try? Poll.wait(for: [], until: min(deadline, .now + .milliseconds(10)))
                default: throw .system(error)
                }
            }
        }
    }

    deinit { close(stream.descriptor) }
}
