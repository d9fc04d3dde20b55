import Glibc
import Latchkey
import LatchkeyPlatform
import Logging

/// Serves the connections of the socket's user, each on its own thread.
struct AgentServer {
    /// The maximum number of connections. Further clients wait in the socket's queue.
    static let maximumConnections = 64

    private let connections: ConnectionServer

    init(socket: ListeningSocket, service: AgentService, log: Logger) {
        connections = ConnectionServer(socket, limit: Self.maximumConnections) { client in
            guard let requester = Requester(connection: client), requester.user == geteuid() else {
                log.warning("refused the connection of another user")
                return nil
            }
            return { AgentConnection(client, requester, service: service, log: log).serve() }
        }
    }

    /// - Throws: ``KeystoreError`` with code `unavailable` without threads or descriptors.
    func start() throws(KeystoreError) {
        guard connections.start() else {
            throw KeystoreError(
                operation: "start the agent", code: .unavailable,
                reason: "the system has no more threads or files",
                recovery: "Close other programs, then start it again.")
        }
    }

    func stop() { connections.stop() }
}
