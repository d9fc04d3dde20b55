import Foundation
import HTTPTypes
import Latchkey
import LatchkeySimulators
import Testing

@testable import LatchkeyOAuth

@Suite(.timeLimit(.minutes(15))) struct CurlTransportTests {
    private func request(_ server: RawServer, _ path: String = "/", fields: HTTPFields = [:])
        -> HTTPRequest
    {
        HTTPRequest(
            method: .post, scheme: "http", authority: server.authority, path: path,
            headerFields: fields)
    }

    /// Keeps a connection however long the other tests delay the next request.
    private static let patient = CurlExchange.Limits(timeoutSeconds: 30, idleSeconds: 3600)

    @Test func `method, path, fields and body arrive, and every status is a result`() async throws {
        let answer = "HTTP/1.1 418 Teapot\r\nContent-Length: 2\r\nX-One: 1\r\nDate: today\r\n\r\nhi"
        try await RawServer.with(answer) { server in
            let sent = request(server, "/a%20b?c=d", fields: [.authorization: "Bearer x"])
            let (response, body) = try await CurlTransport().send(sent, body: Array("k=v".utf8))
            #expect(response.status.code == 418)
            #expect(response.headerFields[.date] == "today")
            #expect(String(decoding: body, as: UTF8.self) == "hi")
            let text = try #require(server.requests.first)
            #expect(text.hasPrefix("POST /a%20b?c=d HTTP/1.1\r\n"))
            #expect(text.contains("Authorization: Bearer x\r\n"))
            #expect(text.hasSuffix("\r\n\r\nk=v"))
        }
    }

    @Test func `a redirect is not followed`() async throws {
        let answer = "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"
        try await RawServer.with(answer) { server in
            let (response, _) = try await CurlTransport().send(request(server), body: [])
            #expect(response.status.code == 302)
            #expect(server.requests.count == 1)
        }
    }

    @Test func `cookies are not kept`() async throws {
        let answer = "HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"
        try await RawServer.with(answer) { server in
            let transport = CurlTransport()
            for _ in 0..<2 { _ = try await transport.send(request(server), body: []) }
            #expect(server.requests.count == 2)
            #expect(server.requests.allSatisfy { !$0.lowercased().contains("cookie") })
        }
    }

    @Test(arguments: [
        "HTTP/1.1 200 OK\r\nContent-Length: 1048577\r\n\r\n\(String(repeating: "x", count: 1 << 20))x",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n100001\r\n\(String(repeating: "x", count: 1 << 20))x\r\n0\r\n\r\n",
    ])
    func `a body of more than 1 MiB is refused`(answer: String) async throws {
        try await RawServer.with(answer) { server in
            await #expect(throws: keystore(.unavailable)) {
                try await CurlTransport().send(request(server), body: [])
            }
        }
    }

    @Test func `a body of 1 MiB is accepted`() async throws {
        let answer =
            "HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n\(String(repeating: "x", count: 1 << 20))"
        try await RawServer.with(answer) { server in
            let (_, body) = try await CurlTransport().send(request(server), body: [])
            #expect(body.count == CurlTransport.maximumResponseBytes)
        }
    }

    @Test func `a request to a silent server ends after the timeout`() async throws {
        try await RawServer.with(nil) { server in
            try await expectTimeout(server)
        }
    }

    @Test(arguments: [
        ("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", "x"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n"),
        ("HTTP/1.1 200 OK\r\n", "X-More: and more\r\n"), ("HTTP/1.1 200 OK", " "),
    ])
    func `a request to a slow server ends after the timeout`(answer: String, drop: String)
        async throws
    {
        try await RawServer.with(answer, dripping: drop) { server in
            try await expectTimeout(server)
        }
    }

    private func expectTimeout(_ server: RawServer) async throws {
        // The server stays silent for the whole test, so the request ends only by its timeout.
        let error = await #expect(throws: KeystoreError.self) {
            try await CurlTransport(timeout: 1).send(request(server), body: [])
        }
        #expect(error?.code == .unavailable)
        #expect(error?.reason.contains("timed out") == true, "\(error as Any)")
        #expect(error?.reason.contains("sent an invalid HTTP response") == false)
    }

    @Test func `a truncated response is an error`() async throws {
        for answer in [
            "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{\"a\":1",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{\"a\"",
        ] {
            try await RawServer.with(answer, isClosedAfter: true) { server in
                let error = await #expect(throws: KeystoreError.self) {
                    try await CurlTransport(timeout: 300).send(request(server), body: [])
                }
                #expect(error?.code == .unavailable)
                #expect(error?.reason == Self.ended(server), "\(error as Any)")
            }
        }
    }

    private static func ended(_ server: RawServer) -> String {
        "the connection to \(server.authority) ended before the response was complete"
    }

    @Test func `a connection that is closed without a response is an error`() async throws {
        try await RawServer.with("") { server in
            let error = await #expect(throws: KeystoreError.self) {
                try await CurlTransport(timeout: 300).send(request(server), body: [])
            }
            #expect(error?.code == .unavailable)
            #expect(error?.reason == Self.ended(server), "\(error as Any)")
        }
    }

    @Test func `an idle connection is closed before the server closes it`() async throws {
        #expect(CurlExchange.Limits(timeoutSeconds: 1).idleSeconds < 5)
        try await RawServer.with("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") { server in
            let transport = CurlTransport(limits: .init(timeoutSeconds: 30, idleSeconds: 1))
            _ = try await transport.send(request(server), body: [])
            let deadline = ContinuousClock.now + hangLimit
            while try !Self.sockets(to: UInt16(server.port)).isEmpty, ContinuousClock.now < deadline
            {
                try await Task.sleep(for: .milliseconds(20))
            }
            #expect(try Self.sockets(to: UInt16(server.port)).isEmpty)
            _ = try await transport.send(request(server), body: [])
            #expect(server.connections == 2)
        }
    }

    @Test(arguments: [
        "garbage\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        "HTTP/2 200\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\(String(repeating: "X: \(String(repeating: "x", count: 1000))\r\n", count: 140))\r\n",
    ])
    func `an invalid response is an error`(answer: String) async throws {
        try await RawServer.with(answer) { server in
            let error = await #expect(throws: KeystoreError.self) {
                try await CurlTransport(timeout: 300).send(request(server), body: [])
            }
            #expect(error?.code == .unavailable)
            #expect(
                error?.reason == "\(server.authority) sent an invalid HTTP response",
                "\(error as Any)")
        }
    }

    @Test(arguments: [
        ("000", "sent an invalid HTTP response"), ("001", "sent an invalid HTTP response"),
        ("099", "sent an invalid HTTP response"), ("101", "answered with an invalid HTTP status"),
        ("600", "answered with an invalid HTTP status"),
        ("999", "answered with an invalid HTTP status"),
    ])
    func `a status that no server may send is refused`(status: String, reason: String) async throws
    {
        try await RawServer.with("HTTP/1.1 \(status) Status\r\nContent-Length: 2\r\n\r\n{}") {
            server in
            let error = await #expect(throws: KeystoreError.self) {
                try await CurlTransport(timeout: 300).send(request(server), body: [])
            }
            #expect(error?.code == .unavailable)
            #expect(error?.reason == "\(server.authority) \(reason)", "\(error as Any)")
        }
    }

    @Test func `a few interim responses are skipped and a flood of them is refused`() async throws {
        let interim = "HTTP/1.1 100 Continue\r\n\r\n"
        let final = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
        try await RawServer.with(String(repeating: interim, count: 3) + final) { server in
            let (response, body) = try await CurlTransport(timeout: 300).send(
                request(server), body: [])
            #expect(response.status.code == 200)
            #expect(body == Array("{}".utf8))
        }
        for flood in [
            String(repeating: interim, count: 10_000),
            String(repeating: interim, count: 10) + final,
        ] {
            try await RawServer.with(flood, dripping: interim) { server in
                let error = await #expect(throws: KeystoreError.self) {
                    try await CurlTransport(timeout: 300).send(request(server), body: [])
                }
                #expect(error?.code == .unavailable)
                #expect(error?.reason.contains("an invalid HTTP status") == true, "\(error as Any)")
            }
        }
    }

    @Test(arguments: [
        ("http", "127.0.0.1:1", "nothing listens at 127.0.0.1:1"),
        ("https", "nowhere.invalid", "no address is known for nowhere.invalid"),
    ])
    func `the reason names why a connection failed`(
        scheme: String, host: String, reason: String
    ) async throws {
        let request = HTTPRequest(method: .get, scheme: scheme, authority: host, path: "/")
        let error = await #expect(throws: KeystoreError.self) {
            try await CurlTransport(timeout: 300).send(request, body: [])
        }
        #expect(error?.code == .unavailable)
        #expect(error?.reason == reason, "\(error as Any)")
    }

    @Test func `a cancelled request is cancelled`() async throws {
        try await RawServer.with(nil) { server in
            // Without the cancellation the request would end after the limit of this test.
            let attempt = Task {
                try await CurlTransport(timeout: 3600).send(request(server), body: [])
            }
            #expect(await poll { !server.requests.isEmpty })
            attempt.cancel()
            await #expect(throws: keystore(.cancelled)) { try await attempt.value }
        }
    }

    @Test(arguments: ["http://identity.test/", "ftp://127.0.0.1/", "https:///x"])
    func `a request that is neither https nor local is not sent`(url: String) async throws {
        let components = try #require(URLComponents(string: url))
        let request = HTTPRequest(
            method: .get, scheme: components.scheme, authority: components.host,
            path: components.path)
        await #expect(throws: keystore(.refused)) {
            try await CurlTransport().send(request, body: [])
        }
    }

    @Test func `a server's IPv6 address can be used`() async throws {
        try await RawServer.with("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", host: "::1") {
            server in
            #expect(server.authority.hasPrefix("[::1]:"))
            for authority in [server.authority, "localhost:\(server.port)"] {
                let request = HTTPRequest(
                    method: .get, scheme: "http", authority: authority, path: "/")
                let (response, body) = try await CurlTransport(timeout: 300).send(request, body: [])
                #expect(response.status.code == 200 && body == Array("hi".utf8), "\(authority)")
            }
        }
    }

    @Test(arguments: [
        (HTTPRequest.Method.get, ""), (.head, ""), (.delete, ""), (.options, ""),
        (.post, "Content-Length: 0\r\n"),
        (.put, "Content-Length: 0\r\n"),
    ])
    func `the client adds no fields but Host, the encoding and the length of the body`(
        method: HTTPRequest.Method, length: String
    )
        async throws
    {
        try await RawServer.with("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") { server in
            let request = HTTPRequest(
                method: method, scheme: "http", authority: server.authority, path: "/a/../b",
                headerFields: [HTTPField.Name("X-Empty") ?? .via: ""])
            _ = try await CurlTransport(timeout: 300).send(request, body: [])
            let expected =
                "\(method.rawValue) /a/../b HTTP/1.1\r\nHost: \(server.authority)\r\nAccept-Encoding: identity\r\nX-Empty:\r\n\(length)\r\n"
            #expect(server.requests == [expected])
        }
    }

    @Test func `a transport keeps its connection and does not leave it to other programs`()
        async throws
    {
        try await RawServer.with("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") { server in
            let transport = CurlTransport(limits: Self.patient)
            for _ in 0..<3 { _ = try await transport.send(request(server), body: []) }
            #expect(server.requests.count == 3)
            #expect(server.connections == 1)
            let flags = try withExtendedLifetime(transport) {
                try Self.sockets(to: UInt16(server.port)).map { fcntl($0, F_GETFD) }
            }
            #expect(flags == [FD_CLOEXEC])
        }
    }

    /// The descriptors of this process for connections to a port.
    private static func sockets(to port: UInt16) throws -> [Int32] {
        try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").compactMap {
            Int32($0)
        }.filter {
            descriptor in
            var (address, length) = (sockaddr_in(), socklen_t(MemoryLayout<sockaddr_in>.size))
            let status = withUnsafeMutableBytes(of: &address) { bytes in
                bytes.withMemoryRebound(to: sockaddr.self) {
                    getpeername(descriptor, $0.baseAddress, &length)
                }
            }
            return status == 0 && address.sin_family == sa_family_t(AF_INET)
                && UInt16(bigEndian: address.sin_port) == port
        }
    }

    @Test(arguments: [(HTTPRequest.Method.post, false), (.get, true)])
    func `a request is repeated only if it changes nothing`(
        method: HTTPRequest.Method, isRepeated: Bool
    ) async throws {
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        try await RawServer.with(answer, answers: 1) { server in
            let transport = CurlTransport(limits: Self.patient)
            let request = HTTPRequest(
                method: method, scheme: "http", authority: server.authority, path: "/")
            _ = try await transport.send(request, body: [])
            let second = try? await transport.send(request, body: [])
            #expect((second != nil) == isRepeated)
            #expect(server.requests.count == (isRepeated ? 3 : 2))
        }
    }

    @Test func `requests of one transport run at the same time`() async throws {
        try await RawServer.with(nil) { silent in
            try await RawServer.with("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") { server in
                let transport = CurlTransport(timeout: 300)
                let waiting = Task { try await transport.send(request(silent), body: []) }
                try await withThrowingTaskGroup(of: Int.self) { group in
                    for _ in 0..<20 {
                        group.addTask {
                            try await transport.send(request(server), body: []).0.status.code
                        }
                    }
                    for try await status in group { #expect(status == 200) }
                }
                waiting.cancel()
                await #expect(throws: keystore(.cancelled)) { try await waiting.value }
            }
        }
    }
}
