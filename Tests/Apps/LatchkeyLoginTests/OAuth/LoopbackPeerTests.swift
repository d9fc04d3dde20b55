import Glibc
import LatchkeyPlatform
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

@testable import LatchkeyOAuth

struct LoopbackPeerTests {
    /// A connection within this process: the client's end and its peer as the server sees it.
    private func withConnection(
        _ body: (_ client: inout Int32, _ peer: LoopbackPeer) async throws -> Void
    ) async throws {
        let listener = try ListeningSocket.loopback(queue: 1)
        var client = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        defer { close(client) }
        var address = sockaddr()
        var length = socklen_t(MemoryLayout<sockaddr>.size)
        #expect(getsockname(listener.descriptor, &address, &length) == 0)
        try #require(connect(client, &address, length) == 0)
        let server = try ListeningSocket.accept(on: listener.descriptor)
        defer { close(server) }
        try await body(&client, try #require(LoopbackPeer(connection: server)))
    }

    @Test func `the owner is the user of the client's socket`() async throws {
        try await withConnection { _, peer in #expect(peer.owner == .thisUser) }
    }

    @Test func `a socket that its program has closed is another user's`() async throws {
        try await withConnection { client, peer in
            close(client)
            client = -1
            // A child process that another test starts at this moment has the socket too, until it
            // executes its program.
            #expect(await poll { peer.owner == .otherUser(nil) })
        }
    }

    /// Without the connection, the kernel looks for a socket that accepts connections at the
    /// client's address.
    @Test func `a socket that listens at the client's address is not its socket`() async throws {
        try await withConnection { _, peer in
            let elsewhere = try #require(TCPSocket.End("127.0.0.1", port: 1))
            let listener = LoopbackPeer(client: peer.server, server: elsewhere)
            #expect(listener.owner == .otherUser(nil), "the listener")
        }
    }

    @Test func `a connection that does not exist is another user's`() throws {
        for host in ["127.0.0.1", "::1"] {
            let missing = LoopbackPeer(
                client: try #require(TCPSocket.End(host, port: 1)),
                server: try #require(TCPSocket.End(host, port: 2)))
            #expect(missing.owner == .otherUser(nil))
        }
    }

    @Test func `a UNIX socket has no owner here`() throws {
        var ends: [Int32] = [-1, -1]
        try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
        defer { ends.forEach { close($0) } }
        #expect(LoopbackPeer(connection: ends[0]) == nil)
    }
}
