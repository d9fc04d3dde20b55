import Glibc
import Latchkey
import Logging
import Synchronization

/// Accepts the connections of the socket's user. One thread accepts, and each connection has a
/// thread.
final class AgentServer: Sendable {
    /// The maximum number of connections. Further clients wait in the socket's queue.
    static let maximumConnections = 64

    private let socket: ListeningSocket
    private let service: AgentService
    private let log: Logger
    private let count = Atomic(0)
    private let stopping: WakePipe

    init(socket: ListeningSocket, service: AgentService, log: Logger) {
        (self.socket, self.service, self.log) = (socket, service, log)
        stopping = WakePipe()
    }

    /// - Throws: ``KeystoreError`` with code `unavailable` without threads or descriptors.
    func start() throws(KeystoreError) {
        guard stopping.isOpen, BlockingThread.start({ [self] in acceptAll() }) else {
            throw KeystoreError(
                operation: "start the agent", code: .unavailable,
                reason: "the system has no more threads or files",
                recovery: "Close other programs, then start it again.")
        }
    }

    func stop() { stopping.wake() }

    private func acceptAll() {
        while true {
            let isFull = count.load(ordering: .relaxed) >= Self.maximumConnections
            var watched = [
                pollfd(fd: stopping.readEnd, events: Int16(POLLIN), revents: 0),
                pollfd(fd: isFull ? -1 : socket.descriptor, events: Int16(POLLIN), revents: 0),
            ]
            // A full server looks again every 100 ms.
            guard poll(&watched, nfds_t(watched.count), isFull ? 100 : -1) >= 0 || errno == EINTR
            else { return }
            if watched[0].revents != 0 { return }
            guard watched[1].revents != 0 else { continue }
            let client = accept(socket.descriptor, nil, nil)
            guard client >= 0 else {
                // Without free descriptors, the connection stays in the queue, and poll returns at
                // once.
                if [EMFILE, ENFILE, ENOMEM, ENOBUFS].contains(errno) { usleep(100_000) }
                continue
            }
            begin(client)
        }
    }

    private func begin(_ client: Int32) {
        _ = fcntl(client, F_SETFD, FD_CLOEXEC)
        guard fcntl(client, F_SETFL, O_NONBLOCK) == 0,
            let requester = Requester(connection: client),
            requester.user == geteuid()
        else {
            log.warning("refused the connection of another user")
            close(client)
            return
        }
        count.add(1, ordering: .relaxed)
        let isStarted = BlockingThread.start { [self] in
            AgentConnection(client, requester, service: service, log: log).serve()
            close(client)
            count.subtract(1, ordering: .relaxed)
        }
        if !isStarted {
            close(client)
            count.subtract(1, ordering: .relaxed)
        }
    }
}
