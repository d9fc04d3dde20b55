import Dispatch
import Glibc
import LatchkeyPlatform
import LatchkeySimulators
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(15)))
struct SocketTests {
    private func withSocketPath(
        _ body: (_ path: String, _ address: UNIXSocketAddress) throws -> Void
    ) throws {
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "socket")
        try body(path, try #require(UNIXSocketAddress(path: path)))
    }

    /// The first byte that arrives; nil at the end of the connection.
    private func byte(from connection: Int32) -> UInt8? {
        var byte: UInt8 = 0
        return recv(connection, &byte, 1, 0) == 1 ? byte : nil
    }

    @Test func `a path must fit into an address`() {
        #expect(UNIXSocketAddress(path: "") == nil)
        #expect(UNIXSocketAddress(path: "/" + String(repeating: "x", count: 107)) == nil)
        #expect(UNIXSocketAddress(path: "/" + String(repeating: "x", count: 106)) != nil)
    }

    @Test func `a listening socket is the user's own, and is removed at its end`() throws {
        try withSocketPath { path, address in
            #expect(!address.isServed)
            #expect(throws: SystemError(ENOENT)) { try address.connectedSocket() }
            do {
                let socket = try address.listeningSocket(queue: 1)
                var status = stat()
                #expect(lstat(path, &status) == 0 && status.st_mode == S_IFSOCK | 0o600)
                #expect(address.isServed)
                #expect(fcntl(socket.descriptor, F_GETFD) == FD_CLOEXEC)
            }
            #expect(access(path, F_OK) != 0)
        }
    }

    @Test func `a socket that no program serves is replaced`() throws {
        try withSocketPath { path, address in
            close(try address.boundSocket())
            #expect(access(path, F_OK) == 0)
            let socket = try address.listeningSocket(queue: 1)
            #expect(throws: SystemError(EADDRINUSE)) { try address.listeningSocket(queue: 1) }
            #expect(address.isServed, "the first one stays")
            socket.shutDown()
            #expect(!address.isServed)
            #expect(access(path, F_OK) != 0)
        }
    }

    @Test func `another file is not replaced`() throws {
        try withSocketPath { path, address in
            close(open(path, O_CREAT | O_WRONLY, 0o600))
            #expect(throws: SystemError(EADDRINUSE)) { try address.listeningSocket(queue: 1) }
            #expect(access(path, F_OK) == 0)
        }
    }

    @Test func `of several programs that start at one path, one succeeds`() async throws {
        for round in 0..<50 {
            let directory = try TemporaryDirectory()
            let path = directory.path(of: "socket")
            // Every second time, there is a socket that no program has open.
            if round.isMultiple(of: 2) {
                close(try #require(UNIXSocketAddress(path: path)).boundSocket())
            }
            let results = await withTaskGroup { group in
                for _ in 0..<8 {
                    group.addTask { () -> Result<ListeningSocket, SystemError> in
                        guard let address = UNIXSocketAddress(path: path) else {
                            return .failure(SystemError(EINVAL))
                        }
                        return Result { () throws(SystemError) in
                            try address.listeningSocket(queue: 1)
                        }
                    }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
            let sockets = results.compactMap { try? $0.get() }
            #expect(sockets.count == 1)
            for case .failure(let error) in results { #expect(error == SystemError(EADDRINUSE)) }
            #expect(UNIXSocketAddress(path: path)?.isServed == true)
        }
    }

    @Test func `a program does not remove the socket of the next one`() throws {
        try withSocketPath { path, address in
            let first = try address.listeningSocket(queue: 1)
            unlink(path)
            let second = try address.listeningSocket(queue: 1)
            first.removePath()
            first.shutDown()
            #expect(address.isServed)
            second.removePath()
            #expect(access(path, F_OK) != 0)
        }
    }

    @Test func `the lock of a socket is a file of this user, which stays`() throws {
        try withSocketPath { path, address in
            #expect(address.lockPath == "\(path).lock")
            do { _ = try address.listeningSocket(queue: 1) }
            var status = stat()
            #expect(lstat(address.lockPath, &status) == 0 && status.st_mode == S_IFREG | 0o600)
            // Another user who may open the file could keep it locked.
            chmod(address.lockPath, 0o644)
            #expect(throws: SystemError(EPERM)) { try address.listeningSocket(queue: 1) }
            unlink(address.lockPath)
            symlink("other", address.lockPath)
            #expect(throws: SystemError(ELOOP)) { try address.listeningSocket(queue: 1) }
        }
    }

    @Test func `a lock of the directory does not prevent a socket`() throws {
        try withSocketPath { path, address in
            let parent = String(path.dropLast("/socket".count))
            let directory = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
            defer { close(directory) }
            #expect(flock(directory, LOCK_EX | LOCK_NB) == 0)
            let socket = try address.listeningSocket(queue: 1)
            #expect(address.isServed)
            withExtendedLifetime(socket) {}
        }
    }

    @Test func `a program whose queue is full serves its socket`() throws {
        try withSocketPath { _, address in
            let socket = try address.listeningSocket(queue: 0)
            let clients = try (0..<1).map { _ in try address.connectedSocket() }
            defer { clients.forEach { close($0) } }
            #expect(address.isServed)
            #expect(throws: SystemError(EADDRINUSE)) { try address.listeningSocket(queue: 0) }
            withExtendedLifetime(socket) {}
        }
    }

    @Test func `the kernel reports the peer of a UNIX socket`() throws {
        try withSocketPath { _, address in
            let listener = try address.listeningSocket(queue: 1)
            let client = try address.connectedSocket()
            defer { close(client) }
            let server = try ListeningSocket.accept(on: listener.descriptor)
            defer { close(server) }
            for end in [client, server] {
                let peer = try #require(PeerCredentials(of: end))
                #expect(peer.process == getpid() && peer.user == geteuid())
            }
        }
        #expect(PeerCredentials(of: -1) == nil)
        #expect(PeerCredentials(of: WakeUp().descriptor) == nil)
        let unconnected = try ListeningSocket.loopback(queue: 1)
        #expect(PeerCredentials(of: unconnected.descriptor) == nil)
    }

    @Test func `a socket is passed to the process that the variables name`() throws {
        #expect(ListeningSocket.passedDescriptor() == nil)
        let count = try #require(EnvironmentVariable(setting: "LISTEN_FDS=1"))
        defer { count.unset() }
        let other = try #require(EnvironmentVariable(setting: "LISTEN_PID=1"))
        defer { other.unset() }
        #expect(ListeningSocket.passedDescriptor() == nil)
        let own = try #require(EnvironmentVariable(setting: "LISTEN_PID=\(getpid())"))
        defer { own.unset() }
        let isOpen = fcntl(3, F_GETFD) >= 0
        #expect(ListeningSocket.passedDescriptor() == (isOpen ? 3 : nil))
        let two = try #require(EnvironmentVariable(setting: "LISTEN_FDS=2"))
        defer { two.unset() }
        #expect(ListeningSocket.passedDescriptor() == nil)
    }

    @Test func `a server serves a limited number of connections, the others wait`() throws {
        try withSocketPath { _, address in
            let release = DispatchSemaphore(value: 0)
            let server = ConnectionServer(try address.listeningSocket(queue: 8), limit: 1) {
                connection in
                return {
                    _ = send(connection, "x", 1, 0)
                    release.wait()
                }
            }
            #expect(server.start())
            let clients = try (0..<3).map { _ in try address.connectedSocket() }
            defer { clients.forEach { close($0) } }
            for client in clients {
                #expect(byte(from: client) == UInt8(ascii: "x"))
                for later in clients.drop(while: { $0 != client }).dropFirst() {
                    #expect(try !Poll.wait(for: later, POLLIN, until: .now))
                }
                release.signal()
                #expect(byte(from: client) == nil, "the server closes the connection")
            }
            server.stop()
        }
    }

    @Test func `a refused connection is closed, and a stopped server accepts none`() throws {
        try withSocketPath { _, address in
            let socket = try address.listeningSocket(queue: 8)
            let server = ConnectionServer(socket, limit: 8) { _ in nil }
            #expect(server.start())
            let client = try address.connectedSocket()
            defer { close(client) }
            #expect(byte(from: client) == nil)
            server.stop()
            socket.shutDown()
            #expect(throws: SystemError.self) { try address.connectedSocket() }
        }
    }

    @Test func `a connection without a thread ends like one that was served`() throws {
        try withSocketPath { _, address in
            for hasThread in [true, false] {
                let ended = Mutex<[Int32]>([])
                let admitted = Mutex<[Int32]>([])
                let socket = try address.listeningSocket(queue: 8)
                let server = ConnectionServer(
                    socket, limit: 8,
                    startThread: { hasThread && BlockingThread.start($0) },
                    ended: { connection in
                        // It is still open.
                        #expect(fcntl(connection, F_GETFD) >= 0)
                        ended.withLock { $0.append(connection) }
                    },
                    admit: { connection in
                        admitted.withLock { $0.append(connection) }
                        return {}
                    })
                #expect(server.start())
                let client = try address.connectedSocket()
                defer { close(client) }
                #expect(byte(from: client) == nil)
                #expect(ended.withLock(\.self) == admitted.withLock(\.self))
                #expect(ended.withLock { $0.count } == 1)
                server.stop()
                socket.shutDown()
            }
        }
    }

    @Test func `the ends of a loopback connection have addresses`() throws {
        let listener = try ListeningSocket.loopback(queue: 1)
        let end = try #require(TCPSocket.End(ownOf: listener.descriptor))
        #expect(end.isLoopback && end.port != 0)
        #expect(TCPSocket.End(peerOf: listener.descriptor) == nil)
        #expect(TCPSocket.End(ownOf: STDIN_FILENO) == nil)
    }
}
