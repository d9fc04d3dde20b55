internal import Glibc
internal import LatchkeyPlatform

/// A connected blocking stream socket. It closes when the last reference is released.
final class StreamSocket: Sendable {
    private let descriptor: Int32

    init(owning descriptor: Int32) {
        self.descriptor = descriptor
    }

    /// Connects to a port on this machine.
    ///
    /// - Returns: nil if no program listens there.
    convenience init?(port: UInt16) {
        let descriptor = socket(
            AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return nil }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let connected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard connected == 0 else {
            close(descriptor)
            return nil
        }
        self.init(owning: descriptor)
    }

    deinit {
        close(descriptor)
    }

    /// Shuts down both directions, so that blocked reads on both sides end.
    func shutDown() {
        shutdown(descriptor, Int32(SHUT_RDWR))
    }

    /// Sends all of `bytes`.
    ///
    /// - Returns: False if the connection has ended.
    func send(_ bytes: [UInt8]) -> Bool { Poll.send(bytes, to: descriptor) }

    /// Receives at most `limit` bytes.
    ///
    /// - Returns: nil at the end of the connection.
    func receive(atMost limit: Int) -> [UInt8]? {
        var buffer = [UInt8](repeating: 0, count: limit)
        while true {
            let count = recv(descriptor, &buffer, limit, 0)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return nil }
            return Array(buffer.prefix(count))
        }
    }

    /// Receives exactly `count` bytes, and acknowledges each part at once.
    ///
    /// The reader's driver sends the length and the message separately. Without the
    /// acknowledgement, its kernel delays the message for 40 ms. The option is not permanent
    /// (tcp(7), TCP_QUICKACK), so it is set around each read.
    ///
    /// - Returns: nil at the end of the connection.
    func receiveAcknowledging(_ count: Int) -> [UInt8]? {
        var bytes: [UInt8] = []
        while bytes.count < count {
            acknowledgeAtOnce()
            guard let part = receive(atMost: count - bytes.count) else { return nil }
            acknowledgeAtOnce()
            bytes += part
        }
        return bytes
    }

    private func acknowledgeAtOnce() {
        var on: Int32 = 1
        setsockopt(
            descriptor, Int32(IPPROTO_TCP), TCP_QUICKACK, &on, socklen_t(MemoryLayout<Int32>.size))
    }
}
