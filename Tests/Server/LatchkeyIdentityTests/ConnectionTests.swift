import Foundation
import Glibc
import Latchkey
import LatchkeyTestSupport
import LatchkeyTesting
import NIOCore
import NIOEmbedded
import Testing

@testable import latchkey_identity

/// Clients that open connections and send nothing.
@Suite(.requires(program: "python3"), .requires(program: "prlimit"), .timeLimit(.minutes(15)))
struct ConnectionTests {
    /// Opens this number of connections from each address and keeps them open. Reopens a connection
    /// that is closed.
    private static let holder = #"""
        import resource, select, socket, sys, time
        port, count, addresses = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 16384), hard))

        def connect(address):
            end = socket.socket()
            end.bind((address, 0))
            end.connect(('127.0.0.1', port))
            return end

        ends = [connect(address) for address in addresses for _ in range(count)]
        print('holding', flush=True)
        time.sleep(300)
        """#

    private static let reader = #"""
        import sys, urllib.request
        print(urllib.request.build_opener(urllib.request.ProxyHandler({})).open(sys.argv[1], timeout=20).read())
        """#

    /// Runs `body` with a server, while other addresses hold connections to it.
    private func withHeld(
        _ count: Int, by addresses: [String], _ body: (_ endpoint: String) async throws -> Void
    ) async throws {
        // The limit of open files that most systems have.
        let server = try await IdentityProcess(
            ["--demo"], through: ["/usr/bin/prlimit", "--nofile=1024:1024"])
        let holder = try RunningProgram(
            URL(filePath: "/usr/bin/python3"),
            ["-c", Self.holder, server.port, "\(count)"] + addresses)
        let said = await holder.output { $0.contains("holding") }
        #expect(said.contains("holding"))
        try await body(server.endpoint)
        await holder.stop(SIGKILL)
        #expect(await server.stop() == 0)
    }

    @Test(arguments: [
        (1100, ["127.0.0.2"]), (300, (2..<10).map { "127.0.0.\($0)" }),
    ])
    func `idle connections of other addresses do not keep a client from an answer`(
        count: Int, addresses: [String]
    ) async throws {
        try await withHeld(count, by: addresses) { endpoint in
            for _ in 0..<5 {
                let request = try RunningProgram(
                    URL(filePath: "/usr/bin/python3"),
                    ["-c", Self.reader, endpoint + "/.well-known/openid-configuration"])
                #expect(await request.remainder().output.contains("issuer"))
                #expect(await request.wait() == 0)
            }
        }
    }

    @Test func `the connections of an address are limited, those of a proxy are not`() throws {
        let limiter = ConnectionLimiter(perAddress: 2, total: 10, exempt: ["proxy"])
        let channels = try (0..<3).map { _ in try open() }
        for channel in channels { limiter.admit(channel, from: "client") }
        #expect(channels.map(isOpen) == [true, true, false])
        let others = try (0..<5).map { _ in try open() }
        for channel in others { limiter.admit(channel, from: "proxy") }
        #expect(others.allSatisfy(isOpen))
        close(channels[0])
        let next = try open()
        limiter.admit(next, from: "client")
        #expect(isOpen(next), "a closed connection leaves its place")
    }

    @Test func `at the total limit, the longest idle connection is closed`() throws {
        let limiter = ConnectionLimiter(perAddress: 10, total: 3)
        let channels = try (0..<3).map { _ in try open() }
        for channel in channels { limiter.admit(channel, from: "client") }
        limiter.setBusy(true, channels[0])
        let next = try open()
        limiter.admit(next, from: "other")
        #expect(channels.map(isOpen) == [true, false, true])
        #expect(isOpen(next))
        limiter.setBusy(true, channels[2])
        limiter.setBusy(true, next)
        let last = try open()
        limiter.admit(last, from: "other")
        #expect(!isOpen(last), "all others have requests")
    }

    @Test func `a Host header cannot send control characters to a terminal that shows the log`()
        async throws
    {
        let server = try await IdentityProcess(["--demo"])
        let request = try RunningProgram(
            URL(filePath: "/usr/bin/python3"),
            [
                "-c",
                """
                import socket, sys
                end = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
                host = 'evil\\u202e\\x9b2Jexample\\u2028'.encode()
                end.sendall(b'GET / HTTP/1.1\\r\\nHost: ' + host + b'\\r\\nConnection: close\\r\\n\\r\\n')
                while end.recv(4096): pass
                """, server.port,
            ])
        #expect(await request.wait() == 0)
        await server.stop()
        let log = await server.log
        #expect(log.contains("evil"), "\(log)")
        for line in log.split(separator: "\n") {
            #expect(!line.unicodeScalars.contains { !$0.isVisible }, "\(line)")
        }
    }

    private func open() throws -> EmbeddedChannel {
        let channel = EmbeddedChannel()
        channel.connect(to: try SocketAddress(ipAddress: "127.0.0.1", port: 1), promise: nil)
        return channel
    }

    private func isOpen(_ channel: EmbeddedChannel) -> Bool {
        channel.embeddedEventLoop.run()
        return channel.isActive
    }

    private func close(_ channel: EmbeddedChannel) {
        channel.close(promise: nil)
        channel.embeddedEventLoop.run()
    }
}
