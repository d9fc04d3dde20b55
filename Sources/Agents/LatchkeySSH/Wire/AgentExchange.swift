internal import Glibc
internal import LatchkeyPlatform

/// Sends messages to an SSH agent and receives the answers. Blocks its thread.
package struct AgentExchange {
    private let descriptor: Int32
    private let watched: Int32

    /// - Parameters:
    ///   - descriptor: A non-blocking connection to the agent.
    ///   - watched: If the peer closes this connection, an exchange ends; -1 for none.
    package init(_ descriptor: Int32, whileOpen watched: Int32 = -1) {
        (self.descriptor, self.watched) = (descriptor, watched)
    }

    /// Sends one message and receives its answer, of at most ``AgentRequest/maximumBytes``. After a
    /// failure the connection cannot be used again.
    ///
    /// - Returns: nil if the watched connection was closed.
    /// - Throws: ``SSHFormatError``, a clause about the agent: it closed the connection, its answer
    ///   is too long, or it did not answer in time.
    package func answer(
        to message: [UInt8], until deadline: ContinuousClock.Instant
    ) throws(SSHFormatError) -> [UInt8]? {
        var frame = SSHWriter()
        frame.string(message)
        var rest = frame.bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes {
                send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            if count > 0 {
                rest = rest.dropFirst(count)
            } else {
                try checkOpen()
                guard try wait(POLLOUT, until: deadline) else { return nil }
            }
        }
        var buffer = FrameBuffer()
        while true {
            if let message = try buffer.next() { return message }
            guard try wait(POLLIN, until: deadline) else { return nil }
            let size = min(try buffer.missing(), 16 * 1024)
            var bytes = [UInt8](repeating: 0, count: size)
            let count = read(descriptor, &bytes, size)
            if count == 0 { throw Self.closed }
            if count < 0 { try checkOpen() }
            buffer.append(bytes.prefix(max(0, count)))
        }
    }

    private static let closed = SSHFormatError("closed the connection")

    /// Checks the error of the last call.
    private func checkOpen() throws(SSHFormatError) {
        guard errno == EAGAIN || errno == EINTR else { throw Self.closed }
    }

    /// - Returns: false if the watched connection was closed.
    private func wait(
        _ events: Int32, until deadline: ContinuousClock.Instant
    ) throws(SSHFormatError) -> Bool {
        // A hang-up is always reported.
        let descriptors = [(descriptor, events), (watched, Int32(0))]
        guard let ready = try? Poll.wait(for: descriptors, until: deadline), ready.events[1] == 0
        else { return false }
        guard !ready.isLate else { throw SSHFormatError("did not answer in time") }
        return true
    }
}
