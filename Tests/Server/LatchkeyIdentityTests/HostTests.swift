import Foundation
import Glibc
import Latchkey
import LatchkeyPlatform
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@testable import latchkey_identity

@Suite("The Host header") struct HostTests {
    /// The status of a request with these Host fields.
    private static func status(_ server: TestServer, _ hosts: String..., path: String = "/login")
        async throws -> Int
    {
        let fields = hosts.map { "Host: \($0)\r\n" }.joined()
        let text = "GET \(path) HTTP/1.1\r\n\(fields)Connection: close\r\n\r\n"
        let place = UInt16(try port(server))
        let answer = await BlockingThread().run { Self.answer(of: place, to: text) }
        return try #require(Int(answer.dropFirst("HTTP/1.1 ".count).prefix(3)), "\(answer)")
    }

    /// Blocks.
    private static func answer(of port: UInt16, to text: String) -> String {
        let end = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        defer { close(end) }
        var limit = timeval(tv_sec: 20, tv_usec: 0)
        setsockopt(end, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        var server = sockaddr_in()
        server.sin_family = sa_family_t(AF_INET)
        server.sin_port = port.bigEndian
        server.sin_addr.s_addr = UInt32(INADDR_LOOPBACK).bigEndian
        let status = withUnsafeBytes(of: server) { bytes in
            bytes.withMemoryRebound(to: sockaddr.self) {
                connect(end, $0.baseAddress, socklen_t(bytes.count))
            }
        }
        guard status == 0, write(end, text, text.utf8.count) == text.utf8.count else { return "" }
        var bytes = [UInt8](repeating: 0, count: 12)
        return recv(end, &bytes, bytes.count, Int32(MSG_WAITALL)) == bytes.count
            ? String(decoding: bytes, as: UTF8.self) : ""
    }

    private static func port(_ server: TestServer) throws -> Int {
        try #require(URLComponents(string: server.services.origin.current ?? "")?.port)
    }

    @Test func `on loopback, the server accepts the loopback names with its port`() async throws {
        try await TestServer.run { server in
            let port = try Self.port(server)
            for name in [
                "127.0.0.1:\(port)", "localhost:\(port)", "LocalHost:\(port)", "[::1]:\(port)",
            ] {
                #expect(try await Self.status(server, name) == 200, "\(name)")
            }
            let others = [
                "evil.example", "evil.example:\(port)", "localhost.evil.example:\(port)",
                "127.0.0.1", "localhost",
                "127.0.0.1:\(port ^ 1)", "127.0.0.2:\(port)", "user@127.0.0.1:\(port)",
                "127.0.0.1:\(port):\(port)",
            ]
            for name in others {
                #expect(try await Self.status(server, name) == 421, "\(name)")
            }
            for path in ["/.well-known/openid-configuration", "/oauth2/userinfo", "/nothing"] {
                #expect(
                    try await Self.status(server, "evil.example:\(port)", path: path) == 421,
                    "\(path)")
            }
        }
    }

    @Test func `a request without Host, or with two, is malformed`() async throws {
        try await TestServer.run { server in
            #expect(try await Self.status(server) == 400)
            let own = "127.0.0.1:\(try Self.port(server))"
            #expect(try await Self.status(server, own, own) == 400)
        }
    }

    @Test(arguments: [
        (
            "https://id.example.com", ["id.example.com", "ID.example.com:443"],
            ["id.example.com:80", "example.com"]
        ),
        (
            "https://id.example.com:8443", ["id.example.com:8443"],
            ["id.example.com", "id.example.com:443"]
        ),
        (
            "http://[2001:db8::1]", ["[2001:db8::1]", "[2001:db8::1]:80"],
            ["[2001:db8::1]:443", "2001:db8::1"]
        ),
        ("http://192.0.2.1:80", ["192.0.2.1", "192.0.2.1:80"], ["192.0.2.1:8080"]),
    ])
    func `with a public origin, the server accepts that origin's name`(
        fixed: String, names: [String], others: [String]
    ) {
        let origin = Origin(fixed)
        origin.listening(on: "10.1.2.3", port: 8_080)
        #expect(origin.current == fixed)
        for name in names { #expect(origin.accepts(host: name), "\(name)") }
        for name in others + ["localhost:8080", "127.0.0.1:8080", ""] {
            #expect(!origin.accepts(host: name), "\(name)")
        }
    }

    @Test func `before it listens, the server accepts no name`() {
        #expect(!Origin(nil).accepts(host: "127.0.0.1:8080"))
        #expect(!Origin(nil).accepts(host: ""))
    }

    @Test(.requires(program: "python3"))
    func `a Host header cannot send control characters to a terminal that shows the log`()
        async throws
    {
        let server = try await IdentityProcess(["--demo", "--log-level", "debug"])
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
}
