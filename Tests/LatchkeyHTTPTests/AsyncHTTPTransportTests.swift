import Foundation
import HTTPTypes
import Latchkey
import LatchkeyHTTP
import LatchkeySimulators
import LatchkeyTesting
import Subprocess
import Testing

struct AsyncHTTPTransportTests {
    private func request(_ server: RawServer, _ path: String = "/", fields: HTTPFields = [:]) -> HTTPRequest {
        HTTPRequest(method: .post, scheme: "http", authority: server.authority, path: path, headerFields: fields)
    }

    @Test func `method, path, fields and body arrive, and every status is a result`() async throws {
        let answer = "HTTP/1.1 418 Teapot\r\nContent-Length: 2\r\nX-One: 1\r\nDate: today\r\n\r\nhi"
        try await RawServer.with(answer) { server in
            let sent = request(server, "/a%20b?c=d", fields: [.authorization: "Bearer x"])
            let (response, body) = try await AsyncHTTPTransport().send(sent, body: Array("k=v".utf8))
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
            let (response, _) = try await AsyncHTTPTransport().send(request(server), body: [])
            #expect(response.status.code == 302)
            #expect(server.requests.count == 1)
        }
    }

    @Test func `cookies are not kept`() async throws {
        let answer = "HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"
        try await RawServer.with(answer) { server in
            let transport = AsyncHTTPTransport()
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
                try await AsyncHTTPTransport().send(request(server), body: [])
            }
        }
    }

    @Test func `a body of 1 MiB is accepted`() async throws {
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n\(String(repeating: "x", count: 1 << 20))"
        try await RawServer.with(answer) { server in
            let (_, body) = try await AsyncHTTPTransport().send(request(server), body: [])
            #expect(body.count == AsyncHTTPTransport.maximumResponseBytes)
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
    func `a request to a slow server ends after the timeout`(answer: String, drop: String) async throws {
        try await RawServer.with(answer, dripping: drop) { server in
            try await expectTimeout(server)
        }
    }

    private func expectTimeout(_ server: RawServer) async throws {
        // The server stays silent for the whole test, so the request ends only by its timeout.
        let error = await #expect(throws: KeystoreError.self) {
            try await AsyncHTTPTransport(timeout: 1).send(request(server), body: [])
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
                    try await AsyncHTTPTransport(timeout: 5).send(request(server), body: [])
                }
                #expect(error?.code == .unavailable)
                #expect(error?.reason.contains("sent an invalid HTTP response") == true, "\(error as Any)")
            }
        }
    }

    @Test(arguments: ["", "garbage\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"])
    func `an invalid response and a closed connection are errors`(answer: String) async throws {
        try await RawServer.with(answer) { server in
            await #expect(throws: keystore(.unavailable)) {
                try await AsyncHTTPTransport(timeout: 5).send(request(server), body: [])
            }
        }
    }

    @Test func `a few interim responses are skipped and a flood of them is refused`() async throws {
        let interim = "HTTP/1.1 100 Continue\r\n\r\n"
        let final = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
        try await RawServer.with(String(repeating: interim, count: 3) + final) { server in
            let (response, body) = try await AsyncHTTPTransport(timeout: 5).send(request(server), body: [])
            #expect(response.status.code == 200)
            #expect(body == Array("{}".utf8))
        }
        for flood in [String(repeating: interim, count: 10_000), String(repeating: interim, count: 10) + final] {
            try await RawServer.with(flood, dripping: interim) { server in
                let error = await #expect(throws: KeystoreError.self) {
                    try await AsyncHTTPTransport(timeout: 20).send(request(server), body: [])
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
            try await AsyncHTTPTransport(timeout: 20).send(request, body: [])
        }
        #expect(error?.code == .unavailable)
        #expect(error?.reason == reason, "\(error as Any)")
    }

    @Test func `a cancelled request is cancelled`() async throws {
        try await RawServer.with(nil) { server in
            let attempt = Task { try await AsyncHTTPTransport().send(request(server), body: []) }
            let deadline = ContinuousClock.now + .seconds(10)
            while server.requests.isEmpty, ContinuousClock.now < deadline { await Task.yield() }
            attempt.cancel()
            await #expect(throws: keystore(.cancelled)) { try await attempt.value }
        }
    }

    @Test(arguments: ["http://identity.test/", "ftp://127.0.0.1/", "https:///x"])
    func `a request that is neither https nor local is not sent`(url: String) async throws {
        let components = try #require(URLComponents(string: url))
        let request = HTTPRequest(
            method: .get, scheme: components.scheme, authority: components.host, path: components.path)
        await #expect(throws: keystore(.refused)) { try await AsyncHTTPTransport().send(request, body: []) }
    }

    @Test func `the client does not offer HTTP/2`() async throws {
        try await RawServer.with("") { server in
            let request = HTTPRequest(method: .get, scheme: "https", authority: server.authority, path: "/")
            await #expect(throws: keystore(.unavailable)) {
                try await AsyncHTTPTransport(timeout: 5).send(request, body: [])
            }
            // The protocols that the client offers (RFC 7301 section 3.1), each with its length before it.
            let hello = try #require(server.requests.first)
            #expect(hello.contains("\u{8}http/1.1"))
            #expect(!hello.contains("\u{2}h2"))
        }
    }

    @Test(.requires(program: "openssl")) func `a certificate of an unknown authority is refused`() async throws {
        let directory = try TemporaryDirectory()
        let (key, certificate) = (directory.path(of: "key"), directory.path(of: "cert"))
        _ = try await run(
            .name("openssl"),
            arguments: [
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
                "-out",
                certificate, "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
            ], output: .discarded)
        _ = try await run(
            .name("openssl"),
            arguments: ["s_server", "-accept", "127.0.0.1:0", "-key", key, "-cert", certificate, "-www"],
            input: .none, output: .sequence, error: .discarded
        ) { execution in
            var text = ""
            for try await chunk in execution.standardOutput {
                text += chunk.withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
                if let match = text.firstMatch(of: /ACCEPT [^:\n]*:([0-9]+)\n/) {
                    let request = HTTPRequest(
                        method: .get, scheme: "https", authority: "localhost:\(match.1)", path: "/")
                    let error = await #expect(throws: KeystoreError.self) {
                        try await AsyncHTTPTransport(timeout: 5).send(request, body: [])
                    }
                    #expect(error?.code == .unavailable)
                    #expect(error?.reason.hasPrefix("the TLS certificate of localhost:") == true, "\(error as Any)")
                    #expect(error?.reason.contains("is not trusted") == true)
                    #expect(error?.recovery.contains("trust store") == true)
                    await execution.teardown(using: [])
                    return
                }
            }
            Issue.record("openssl did not start: \(text)")
        }
    }
}
