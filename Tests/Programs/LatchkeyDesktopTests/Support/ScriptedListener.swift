import Foundation
import LatchkeyPlatform
import Synchronization
import Testing

/// A program at a socket that reads each request and answers as the script says.
final class ScriptedListener: Sendable {
    private let server: ConnectionServer
    private let socket: ListeningSocket

    /// - Parameter answer: The bytes to send before the connection is closed; nil to answer nothing
    ///   and keep it open.
    init(_ path: String, answer: @escaping @Sendable () -> [UInt8]?) throws {
        unlink(path)
        let address = try #require(UNIXSocketAddress(path: path))
        let socket = try address.listeningSocket(queue: 8)
        self.socket = socket
        server = ConnectionServer(socket, limit: 8) { connection in
            {
                _ = try? Poll.wait(for: connection, POLLIN, until: nil)
                guard let bytes = answer() else {
                    // Until the client leaves.
                    var byte: UInt8 = 0
                    while true {
                        _ = try? Poll.wait(for: connection, POLLIN, until: nil)
                        let count = read(connection, &byte, 1)
                        if count == 0 || count < 0 && errno != EAGAIN { return }
                    }
                }
                _ = bytes.withUnsafeBytes {
                    send(connection, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
                }
                shutdown(connection, Int32(SHUT_WR))
            }
        }
        try #require(server.start())
    }

    func end() {
        server.stop()
        socket.shutDown()
    }
}
