import Foundation
import Testing

/// A local server that accepts connections and never answers.
final class SilentServer {
    private let descriptor: Int32
    /// `http://127.0.0.1:PORT`.
    let address: String

    init() throws {
        descriptor = socket(
            AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0
        )
        var place = sockaddr_in()
        place.sin_family = sa_family_t(AF_INET)
        place.sin_addr.s_addr = in_addr_t(INADDR_LOOPBACK).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let (socket, size) = (descriptor, length)
        let isListening = withUnsafeMutablePointer(to: &place) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { place in
                bind(socket, place, size) == 0 && listen(socket, 8) == 0
                    && getsockname(socket, place, &length) == 0
            }
        }
        address = "http://127.0.0.1:\(UInt16(bigEndian: place.sin_port))"
        try #require(isListening)
    }

    deinit { close(descriptor) }

    /// Whether there was a connection since the last call.
    func hadVisitor() -> Bool {
        let visitor = accept(descriptor, nil, nil)
        if visitor >= 0 { close(visitor) }
        return visitor >= 0
    }
}
