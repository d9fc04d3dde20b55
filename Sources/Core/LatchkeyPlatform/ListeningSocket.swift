internal import CPlatform
internal import Glibc
internal import Synchronization

/// A socket that accepts connections. It is closed when the last reference is released.
package final class ListeningSocket: Sendable {
    package let descriptor: Int32
    /// The file to remove at the end; nil if it has been removed.
    private let file: Mutex<SocketFile?>

    package convenience init(owning descriptor: Int32) {
        self.init(owning: descriptor, removing: nil)
    }

    init(owning descriptor: Int32, removing file: SocketFile?) {
        self.descriptor = descriptor
        self.file = Mutex(file)
    }

    deinit {
        removePath()
        close(descriptor)
    }

    /// The path of a UNIX socket, also of a passed one; nil if it has no path.
    package var path: String? { UNIXSocketAddress.path(of: descriptor) }

    /// Removes the path. Further clients cannot connect. A passed socket has none.
    package func removePath() {
        file.withLock { file in
            file?.remove()
            file = nil
        }
    }

    /// Listens on a port of `127.0.0.1`.
    ///
    /// - Parameters:
    ///   - port: The port; 0 for a free one.
    ///   - queue: The number of connections that can wait to be accepted.
    package static func loopback(port: UInt16 = 0, queue: Int32) throws(SystemError)
        -> ListeningSocket
    {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw .last }
        let listener = ListeningSocket(owning: descriptor)
        // A chosen port can have closed connections of an earlier listener (TIME_WAIT). Another
        // listener still makes bind(2) fail.
        var isReused: Int32 = port == 0 ? 0 : 1
        setsockopt(
            descriptor, SOL_SOCKET, SO_REUSEADDR, &isReused, socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr_in()
        address.sin_port = port.bigEndian
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let status = withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard status == 0, listen(descriptor, queue) == 0 else { throw .last }
        return listener
    }

    /// The descriptor of the socket that systemd passes to a program for one socket unit
    /// (sd_listen_fds(3)), made close-on-exec; nil if this process has no such socket.
    package static func passedDescriptor() -> Int32? {
        func variable(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }
        guard variable("LISTEN_PID") == "\(getpid())", variable("LISTEN_FDS") == "1",
            fcntl(firstPassedDescriptor, F_SETFD, FD_CLOEXEC) == 0
        else { return nil }
        return firstPassedDescriptor
    }

    /// `SD_LISTEN_FDS_START`.
    private static let firstPassedDescriptor: Int32 = 3

    /// Accepts a connection, as a close-on-exec descriptor that the caller must close.
    package static func accept(on listener: Int32, isBlocking: Bool = true) throws(SystemError)
        -> Int32
    {
        let flags = SOCK_CLOEXEC.rawValue | (isBlocking ? 0 : SOCK_NONBLOCK.rawValue)
        while true {
            let connection = latchkey_accept4(listener, nil, nil, Int32(flags))
            if connection >= 0 { return connection }
            // ECONNABORTED: the client left before the connection was accepted.
            guard errno == EINTR || errno == ECONNABORTED else { throw .last }
        }
    }

    /// Removes the path, and refuses further connections, also those that wait. Not for a passed
    /// socket, which systemd could not use again.
    package func shutDown() {
        removePath()
        shutdown(descriptor, Int32(SHUT_RDWR))
    }
}

/// Accepts connections on one thread, and serves each on a thread of its own.
package final class ConnectionServer: Sendable {
    private let socket: ListeningSocket
    private let limit: Int
    private let admit: @Sendable (Int32) -> (@Sendable () -> Void)?
    private let ended: @Sendable (Int32) -> Void
    private let startThread: @Sendable (@escaping @Sendable () -> Void) -> Bool
    private let count = Atomic(0)
    private let isStopped = Atomic(false)
    private let wakeUp = WakeUp()

    /// - Parameters:
    ///   - limit: The maximum number of connections. Further clients wait in the socket's queue.
    ///   - startThread: Starts the thread of a connection, for tests of a system without threads.
    ///   - ended: Called for each connection that was not refused, before it is closed, also if the
    ///     system could not start its thread.
    ///   - admit: Called for each connection, a non-blocking descriptor that the server closes.
    ///     Returns the work that serves it, on its own thread; nil to refuse the connection.
    package init(
        _ socket: ListeningSocket, limit: Int,
        startThread: @escaping @Sendable (@escaping @Sendable () -> Void) -> Bool = {
            BlockingThread.start($0)
        },
        ended: @escaping @Sendable (_ connection: Int32) -> Void = { _ in },
        admit: @escaping @Sendable (_ connection: Int32) -> (@Sendable () -> Void)?
    ) {
        self.socket = socket
        self.limit = limit
        self.startThread = startThread
        self.ended = ended
        self.admit = admit
    }

    /// Whether no connection is open.
    package var isIdle: Bool { count.load(ordering: .sequentiallyConsistent) == 0 }

    /// - Returns: false without threads or descriptors.
    package func start() -> Bool {
        let flags = fcntl(socket.descriptor, F_GETFL)
        return wakeUp.isOpen && fcntl(socket.descriptor, F_SETFL, flags | O_NONBLOCK) == 0
            && BlockingThread.start { [self] in acceptAll() }
    }

    /// Accepts no further connections. Open ones continue.
    package func stop() {
        isStopped.store(true, ordering: .sequentiallyConsistent)
        wakeUp.wake()
    }

    private func acceptAll() {
        while !isStopped.load(ordering: .sequentiallyConsistent) {
            let isFull = count.load(ordering: .sequentiallyConsistent) >= limit
            let watched = [(isFull ? -1 : socket.descriptor, POLLIN)]
            guard let ready = try? Poll.wait(for: watched, until: nil, wakeUp: wakeUp) else {
                return
            }
            guard !ready.isWoken else {
                wakeUp.clear()
                continue
            }
            do throws(SystemError) {
                begin(try ListeningSocket.accept(on: socket.descriptor, isBlocking: false))
            } catch {
                guard error.number != EAGAIN else { continue }
                // For example without free descriptors: the connection stays in the queue.
                _ = try? Poll.wait(for: [], until: .now + .milliseconds(100), wakeUp: wakeUp)
            }
        }
    }

    private func begin(_ connection: Int32) {
        guard let serve = admit(connection) else {
            close(connection)
            return
        }
        count.add(1, ordering: .sequentiallyConsistent)
        let isStarted = startThread { [self] in
            serve()
            end(connection)
        }
        if !isStarted { end(connection) }
    }

    private func end(_ connection: Int32) {
        ended(connection)
        close(connection)
        count.subtract(1, ordering: .sequentiallyConsistent)
        wakeUp.wake()
    }
}
