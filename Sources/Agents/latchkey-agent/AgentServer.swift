import Glibc
import Latchkey
import LatchkeyPlatform
import LatchkeySSH
import Logging
import Synchronization

/// Serves the connections of the socket's user, each on its own thread.
struct AgentServer {
    /// Connections that the limit closes end a moment later.
    private static let threads = ConnectionLimit.total + 64

    private let socket: ListeningSocket
    private let server: ConnectionServer

    init(socket: ListeningSocket, service: AgentService, log: Logger) {
        self.socket = socket
        let connections = OpenConnections()
        server = ConnectionServer(socket, limit: Self.threads, ended: { connections.remove($0) }) {
            connection in
            guard let client = AgentClient(connection: connection), client.mayUseAgent else {
                log.warning("refused the connection of another user")
                return nil
            }
            guard connections.add(connection, of: client.process) else { return nil }
            return {
                AgentConnection(connection, client, service: service, among: connections).serve()
            }
        }
    }

    /// - Throws: ``KeystoreError`` with code `unavailable` without threads or descriptors.
    func start() throws(KeystoreError) {
        guard server.start() else {
            throw KeystoreError(
                operation: "start the agent", code: .unavailable,
                reason: "the system has no more threads or files",
                recovery: "Close other programs, then start it again.")
        }
    }

    /// Removes the socket's path. The thread that accepts connections may outlive this call.
    func stop() {
        server.stop()
        socket.removePath()
    }
}

/// The open connections. Closes the excess ones (``ConnectionLimit``), by shutting them down: their
/// threads then end.
final class OpenConnections: Sendable {
    private let limit = Mutex(ConnectionLimit())

    /// - Returns: Whether the connection may stay.
    func add(_ connection: Int32, of process: Int32) -> Bool {
        limit.withLock { limit in
            let excess = limit.add(connection, of: process)
            for other in excess where other != connection { shutdown(other, Int32(SHUT_RDWR)) }
            return !excess.contains(connection)
        }
    }

    /// The connection is forwarded, or its binding failed.
    func forward(_ connection: Int32) {
        limit.withLock { limit in
            for excess in limit.forward(connection) { shutdown(excess, Int32(SHUT_RDWR)) }
        }
    }

    func answer(_ connection: Int32, isAnswered: Bool) {
        limit.withLock { $0.answer(connection, isAnswered: isAnswered) }
    }

    /// Call it before the descriptor is closed.
    func remove(_ connection: Int32) { limit.withLock { $0.remove(connection) } }
}
