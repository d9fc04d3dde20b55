import FoundationEssentials
import HTTPTypes
import Latchkey
import Testing

@testable import latchkey_identity

@Suite("Behind a proxy") struct TrustedProxyTests {
    /// Requests a challenge with `client` in `X-Forwarded-For` and expects this status.
    private static func expect(
        _ status: Int, _ server: TestServer, for client: String?,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        var headers: HTTPFields = [.contentType: "application/json"]
        if let client { headers[named: "X-Forwarded-For"] = client }
        let answer = try await server.send(
            .post, "/oauth2/challenge", headers: headers, body: #"{"purpose":"biometric_request"}"#)
        #expect(answer.status == status, "\(client ?? "nobody")", sourceLocation: sourceLocation)
    }

    @Test func `each client of a trusted proxy has its own limits`() async throws {
        try await TestServer.run {
            $0.rateLimits.challengePerAddress = 1
            $0.trustedProxies = ["192.0.2.1", "127.0.0.1"]
        } body: { server in
            try await Self.expect(200, server, for: "198.51.100.1")
            try await Self.expect(429, server, for: "198.51.100.1")
            try await Self.expect(200, server, for: "198.51.100.2")
            // The client's own entries come before the proxy's.
            try await Self.expect(429, server, for: "203.0.113.9, 198.51.100.1")
            try await Self.expect(200, server, for: "198.51.100.1,198.51.100.3")
            // One address in different spellings.
            try await Self.expect(200, server, for: "2001:DB8:0:0::1")
            try await Self.expect(429, server, for: "2001:db8::1")
            try await Self.expect(429, server, for: "::ffff:198.51.100.2")
            // All addresses of a /64 count as one client.
            try await Self.expect(429, server, for: "2001:db8::ffff:1:2:3")
            try await Self.expect(200, server, for: "2001:db8:0:1::1")
        }
    }

    @Test func `an invalid address is replaced by the proxy's own`() async throws {
        try await TestServer.run {
            $0.rateLimits.challengePerAddress = 1
            $0.trustedProxies = ["127.0.0.1"]
        } body: { server in
            try await Self.expect(200, server, for: nil)
            for text in [
                nil, "unknown", "198.51.100.1,", "198.51.100.1:80", "example.com", "127.0.0.1",
            ] {
                try await Self.expect(429, server, for: text)
            }
        }
    }

    @Test(arguments: [[], ["192.0.2.1"]]) func `X-Forwarded-For of other peers is ignored`(
        proxies: [String]
    )
        async throws
    {
        try await TestServer.run {
            $0.rateLimits.challengePerAddress = 1
            $0.trustedProxies = proxies
        } body: { server in
            try await Self.expect(200, server, for: "198.51.100.1")
            try await Self.expect(429, server, for: "198.51.100.2")
        }
    }

    @Test func `only addresses can be trusted`() throws {
        func configuration(_ proxy: String) throws -> ServerConfiguration {
            try ServerConfiguration(
                json: Data(
                    #"{"clients": [{"client_id": "a", "redirect_uris": ["a.b:/"]}], "trusted_proxies": ["\#(proxy)"]}"#
                        .utf8))
        }
        #expect(try configuration("::1").trustedProxies == ["::1"])
        for text in ["", "localhost", "10.0.0.0/8", "10.0.0.1:80"] {
            #expect(throws: ConfigurationError.self) { _ = try configuration(text) }
        }
    }
}
