internal import Glibc
internal import LatchkeyPlatform

/// A connection to a socket of another program, whose calls all end at one deadline. Blocks its
/// thread.
struct DeadlineConnection: ~Copyable {
    enum Failure: Error {
        /// No program listens.
        case absent
        case late
        case closed
        case system(SystemError)
    }

    let descriptor: Int32
    private let deadline: ContinuousClock.Instant

    init(_ path: String, until deadline: ContinuousClock.Instant) throws(Failure) {
        guard let address = UNIXSocketAddress(path: path) else {
            throw .system(SystemError(ENAMETOOLONG))
        }
        let type = __socket_type(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue)
        while true {
            do throws(SystemError) {
                descriptor = try address.connectedSocket(type)
                break
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
        self.deadline = deadline
    }

    deinit { close(descriptor) }

    func send(_ bytes: UnsafeRawBufferPointer) throws(Failure) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let part = UnsafeRawBufferPointer(rebasing: rest)
            let count = Glibc.send(
                descriptor, part.baseAddress, part.count, Int32(MSG_NOSIGNAL))
            if count > 0 {
                rest = rest.dropFirst(count)
            } else {
                try checkLast()
                try wait(POLLOUT)
            }
        }
    }

    /// Receives bytes until the buffer is full.
    func receive(into buffer: UnsafeMutableRawBufferPointer) throws(Failure) {
        var rest = buffer[...]
        while !rest.isEmpty {
            let part = UnsafeMutableRawBufferPointer(rebasing: rest)
            let count = read(descriptor, part.baseAddress, part.count)
            guard count != 0 else { throw .closed }
            if count > 0 {
                rest = rest.dropFirst(count)
            } else {
                try checkLast()
                try wait(POLLIN)
            }
        }
    }

    /// Receives the bytes that are there, after a wait for the first.
    ///
    /// - Returns: The number of bytes; 0 at the end.
    func receiveSome(into buffer: UnsafeMutableRawBufferPointer) throws(Failure) -> Int {
        while true {
            let count = read(descriptor, buffer.baseAddress, buffer.count)
            if count >= 0 { return count }
            try checkLast()
            try wait(POLLIN)
        }
    }

    private func checkLast() throws(Failure) {
        switch errno {
        case EAGAIN, EINTR: return
        case EPIPE, ECONNRESET: throw .closed
        default: throw .system(.last)
        }
    }

    private func wait(_ events: Int32) throws(Failure) {
        let isReady: Bool
        do throws(SystemError) {
            isReady = try Poll.wait(for: descriptor, events, until: deadline)
        } catch {
            throw .system(error)
        }
        guard isReady else { throw .late }
    }
}
