internal import Glibc
internal import Latchkey
internal import LatchkeyPlatform

/// A connection to a server on a UNIX socket, for one request and its response.
struct UNIXSocket: ~Copyable {
    private let descriptor: Int32

    /// - Returns: nil if no server listens at `path`, or if the path is too long.
    init?(path: String) {
        guard let descriptor = try? UNIXSocketAddress(path: path)?.connectedSocket() else {
            return nil
        }
        self.descriptor = descriptor
    }

    deinit {
        close(descriptor)
    }

    /// Sends `request` and returns the first bytes of the response, at most 4096.
    ///
    /// - Returns: nil if no response arrives within `milliseconds`.
    borrowing func exchange(_ request: [UInt8], within milliseconds: Int32) -> [UInt8]? {
        guard send(descriptor, request, request.count, Int32(MSG_NOSIGNAL)) == request.count else {
            return nil
        }
        guard isReadable(within: milliseconds) else { return nil }
        var response = [UInt8](repeating: 0, count: 4096)
        let count = recv(descriptor, &response, response.count, 0)
        guard count > 0 else { return nil }
        return Array(response.prefix(count))
    }

    /// Connects, sends `request` and returns the response, on a thread that may block.
    static func exchange(_ request: [UInt8], with path: String, within milliseconds: Int32) async
        -> [UInt8]?
    {
        await BlockingThread().run {
            UNIXSocket(path: path)?.exchange(request, within: milliseconds)
        }
    }

    /// Connects, sends `message`, closes the sending side, and waits until the server closes the
    /// connection, on a thread that may block.
    ///
    /// - Returns: Whether the server accepted the message: false if no server listens, or if it
    ///   does not close in time.
    static func deliver(_ message: [UInt8], to path: String, within milliseconds: Int32) async
        -> Bool
    {
        await BlockingThread().run {
            UNIXSocket(path: path)?.deliver(message, within: milliseconds) ?? false
        }
    }

    private borrowing func deliver(_ message: [UInt8], within milliseconds: Int32) -> Bool {
        guard send(descriptor, message, message.count, Int32(MSG_NOSIGNAL)) == message.count,
            shutdown(descriptor, Int32(SHUT_WR)) == 0
        else { return false }
        var byte: UInt8 = 0
        return isReadable(within: milliseconds) && recv(descriptor, &byte, 1, 0) == 0
    }

    private borrowing func isReadable(within milliseconds: Int32) -> Bool {
        let deadline = ContinuousClock.now + .milliseconds(milliseconds)
        return (try? Poll.wait(for: descriptor, POLLIN, until: deadline)) == true
    }
}

/// Ends a connection, or a listening socket, and closes its descriptor.
///
/// close(2) alone does not end the connection while another process has a copy of the descriptor. A
/// process that another test starts has one until its `exec`.
package func endSocket(_ descriptor: Int32) {
    shutdown(descriptor, Int32(SHUT_RDWR))
    close(descriptor)
}
