import Glibc
import LatchkeySimulators
import LatchkeyTestSupport
import NIOCore
import NIOPosix
import Testing

@testable import LatchkeyOAuth

struct LoopbackPeerTests {
    /// A connection within this process: the two ends' addresses as the server sees them, while
    /// `body` runs.
    private func withConnection(
        _ host: String = "127.0.0.1",
        _ body: (_ client: SocketAddress, _ server: SocketAddress, _ end: any Channel) async throws
            -> Void
    ) async throws {
        let group = MultiThreadedEventLoopGroup.singleton
        let listener = try await ServerBootstrap(group: group).bind(host: host, port: 0).get()
        let server = try #require(listener.localAddress)
        let end = try await ClientBootstrap(group: group).connect(to: server).get()
        let result: Result<Void, any Error>
        do {
            result = .success(try await body(try #require(end.localAddress), server, end))
        } catch {
            result = .failure(error)
        }
        try? await end.close()
        try await listener.close()
        try result.get()
    }

    @Test(arguments: ["127.0.0.1", "::1"])
    func `the owner is the user of the client's socket`(_ host: String) async throws {
        try await withConnection(host) { client, server, _ in
            #expect(LoopbackPeer(client: client, server: server)?.owner == .thisUser)
        }
    }

    @Test func `a socket that its program has closed is another user's`() async throws {
        try await withConnection { client, server, end in
            try await end.close()
            // A child process that another test starts at this moment has the socket too, until it
            // executes its program.
            #expect(
                await poll { LoopbackPeer(client: client, server: server)?.owner == .otherUser })
        }
    }

    /// Without the connection, the kernel looks for a socket that accepts connections at the
    /// client's address.
    @Test func `a socket that listens at the client's address is not its socket`() async throws {
        try await withConnection { client, server, _ in
            let elsewhere = try SocketAddress(ipAddress: "127.0.0.1", port: 1)
            #expect(
                LoopbackPeer(client: server, server: elsewhere)?.owner == .otherUser, "the listener"
            )
        }
    }

    @Test func `a connection that does not exist is another user's`() throws {
        let missing = LoopbackPeer(
            client: try SocketAddress(ipAddress: "127.0.0.1", port: 1),
            server: try SocketAddress(ipAddress: "127.0.0.1", port: 2))
        #expect(missing?.owner == .otherUser)
        #expect(
            LoopbackPeer(client: try SocketAddress(unixDomainSocketPath: "/x"), server: nil) == nil)
    }
}
