import FoundationEssentials
import HTTPTypes
import HummingbirdTesting
import Latchkey
import Testing

@testable import latchkey_identity

@Suite("The Host header") struct HostTests {
    /// The status of a request with `authority` as Host; nil for a request without Host.
    private static func status(
        _ server: TestServer, _ authority: String?, path: String = "/login", headers: HTTPFields = [:]
    ) async throws -> Int {
        var headers = headers
        headers[.connection] = "keep-alive"
        return try await server.client.execute(
            TestClient.Request(path, method: .get, authority: authority, headers: headers)
        ).status.code
    }

    private static func port(_ server: TestServer) throws -> Int {
        try #require(URLComponents(string: server.services.origin.current ?? "")?.port)
    }

    @Test func `on loopback, the server accepts the loopback names with its port`() async throws {
        try await TestServer.run { server in
            let port = try Self.port(server)
            for name in ["127.0.0.1:\(port)", "localhost:\(port)", "LocalHost:\(port)", "[::1]:\(port)"] {
                #expect(try await Self.status(server, name) == 200, "\(name)")
            }
            let others = [
                "evil.example", "evil.example:\(port)", "localhost.evil.example:\(port)", "127.0.0.1", "localhost",
                "127.0.0.1:\(port ^ 1)", "127.0.0.2:\(port)", "user@127.0.0.1:\(port)", "127.0.0.1:\(port):\(port)",
            ]
            for name in others {
                #expect(try await Self.status(server, name) == 421, "\(name)")
            }
            for path in ["/.well-known/openid-configuration", "/oauth2/userinfo", "/nothing"] {
                #expect(try await Self.status(server, "evil.example:\(port)", path: path) == 421, "\(path)")
            }
        }
    }

    @Test func `a request without Host, or with two, is malformed`() async throws {
        try await TestServer.run { server in
            #expect(try await Self.status(server, nil) == 400)
            let own = "127.0.0.1:\(try Self.port(server))"
            #expect(try await Self.status(server, own, headers: [HTTPField.Name("Host") ?? .via: own]) == 400)
        }
    }

    @Test(arguments: [
        ("https://id.example.com", ["id.example.com", "ID.example.com:443"], ["id.example.com:80", "example.com"]),
        ("https://id.example.com:8443", ["id.example.com:8443"], ["id.example.com", "id.example.com:443"]),
        ("http://[2001:db8::1]", ["[2001:db8::1]", "[2001:db8::1]:80"], ["[2001:db8::1]:443", "2001:db8::1"]),
        ("http://192.0.2.1:80", ["192.0.2.1", "192.0.2.1:80"], ["192.0.2.1:8080"]),
    ])
    func `with a public origin, the server accepts that origin's name`(fixed: String, names: [String], others: [String])
    {
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
}
