import Glibc
import LatchkeyPlatform
import LatchkeySimulators
import Synchronization
import Testing

/// A service at the socket of the sign-in that does as the test says.
final class FakeSignInService: Sendable {
    /// The answer to a line.
    enum Step: Sendable {
        case answer(String)
        /// Sends these bytes as they are.
        case raw(String)
        /// Ends the connection.
        case close
        /// Answers nothing until the client leaves.
        case hang
        /// Answers nothing for this time in milliseconds, as a slow service.
        case pause(UInt32)
    }

    private let server: ConnectionServer

    /// - Parameter steps: The steps for a line, without its end.
    init(_ scene: PAMScene, _ steps: @escaping @Sendable (String) -> [Step]) throws {
        let address = try #require(UNIXSocketAddress(path: scene.socket))
        unlink(scene.socket)
        let socket = try address.listeningSocket(queue: 8)
        chmod(scene.socket, 0o666)
        let log = Log()
        self.log = log
        server = ConnectionServer(socket, limit: 8) { connection in
            { Self.serve(connection, log, steps) }
        }
        try #require(server.start())
    }

    deinit { server.stop() }

    private let log: Log

    /// The number of connections that it ended.
    var ended: Int { log.ended.withLock { $0 } }
    /// The lines of all clients.
    var lines: [String] { log.lines.withLock { $0 } }

    private final class Log: Sendable {
        let lines = Mutex<[String]>([])
        let ended = Mutex(0)
    }

    private static func serve(
        _ connection: Int32, _ log: Log, _ steps: @Sendable (String) -> [Step]
    ) {
        while let line = read(connection) {
            log.lines.withLock { $0.append(line) }
            for step in steps(line) {
                switch step {
                case .answer(let text): send("\(text)\n", connection)
                case .raw(let text): send(text, connection)
                case .close:
                    // Also for a copy of the descriptor in a child of another test.
                    shutdown(connection, Int32(SHUT_RDWR))
                    return log.ended.withLock { $0 += 1 }
                case .hang: _ = read(connection)
                case .pause(let time): usleep(time * 1000)
                }
            }
        }
    }

    private static func send(_ text: String, _ connection: Int32) {
        let bytes = Array(text.utf8)
        Glibc.send(connection, bytes, bytes.count, Int32(MSG_NOSIGNAL))
    }

    private static func read(_ connection: Int32) -> String? {
        var bytes: [UInt8] = []
        let deadline = ContinuousClock.now + hangLimit
        while (try? Poll.wait(for: connection, POLLIN, until: deadline)) == true {
            var byte: UInt8 = 0
            guard recv(connection, &byte, 1, 0) == 1 else { return nil }
            guard byte != UInt8(ascii: "\n") else { return String(decoding: bytes, as: UTF8.self) }
            bytes.append(byte)
        }
        return nil
    }
}
