import Glibc
import LatchkeySimulators
import Testing

@testable import LatchkeyOAuth

@Suite(.timeLimit(.minutes(15)))
struct LoopbackConnectionTests {
    /// Sends bytes to a connection, and returns its response, and the request that it served.
    private func exchange(
        _ text: String, isClosed: Bool = true,
        until deadline: ContinuousClock.Instant = .now + hangLimit
    ) throws -> (response: String, request: RequestLine?) {
        var ends: [Int32] = [-1, -1]
        let type = SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue
        try #require(socketpair(AF_UNIX, Int32(type), 0, &ends) == 0)
        defer { ends.forEach { close($0) } }
        try #require(send(ends[1], text, text.utf8.count, 0) == text.utf8.count)
        if isClosed { shutdown(ends[1], Int32(SHUT_WR)) }
        var request: RequestLine?
        LoopbackConnection(descriptor: ends[0], deadline: deadline).serve {
            request = $0
            return .done
        }
        var bytes = [UInt8](repeating: 0, count: 65_536)
        let count = max(0, recv(ends[1], &bytes, bytes.count, 0))
        return (String(decoding: bytes.prefix(count), as: UTF8.self), request)
    }

    @Test(arguments: ["GET", "POST", "HEAD"], ["HTTP/1.1", "HTTP/1.0"])
    func `a request has a method and a target`(method: String, version: String) throws {
        let (response, request) = try exchange(
            "\(method) /callback?code=a%20b&x \(version)\r\nHost: 127.0.0.1\r\n\r\nbody")
        #expect(request?.method == method[...])
        #expect(request?.target == "/callback?code=a%20b&x")
        #expect(response.hasPrefix("HTTP/1.1 200 OK\r\n"))
        let parts = response.split(separator: "\r\n\r\n", maxSplits: 1)
        let length = parts[0].split(separator: "\r\n").first { $0.hasPrefix("Content-Length: ") }
        #expect(length == "Content-Length: \(parts[1].utf8.count)")
        #expect(parts[0].contains("Connection: close") && parts[1].contains("close this window"))
    }

    @Test(arguments: [
        "\r\n\r\n", "GET /callback\r\n\r\n", "GET  /callback HTTP/1.1\r\n\r\n",
        "GET callback HTTP/1.1\r\n\r\n", "GET /callback HTTP/2.0\r\n\r\n",
        "GET /c\u{e4} HTTP/1.1\r\n\r\n", "GET /a b HTTP/1.1\r\n\r\n", " /a HTTP/1.1\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET /a\nb HTTP/1.1\r\n\r\n",
        "GET http://127.0.0.1/callback HTTP/1.1\r\n\r\n",
    ])
    func `a malformed request is refused`(_ text: String) throws {
        let (response, request) = try exchange(text)
        #expect(request == nil)
        #expect(response.hasPrefix("HTTP/1.1 400 Bad Request\r\n"))
    }

    @Test func `a head has at most 64 KiB`() throws {
        let frame = "GET /callback? HTTP/1.1\r\n\r\n"
        let longest = LoopbackConnection.maximumHeadBytes - frame.utf8.count
        func head(_ count: Int) -> String {
            "GET /callback?\(String(repeating: "x", count: count)) HTTP/1.1\r\n\r\n"
        }
        #expect(try exchange(head(longest)).response.hasPrefix("HTTP/1.1 200"))
        let (response, request) = try exchange(head(longest + 1))
        #expect(request == nil && response.hasPrefix("HTTP/1.1 400"))
    }

    @Test func `an incomplete request gets no response`() throws {
        for text in ["", "GET /callback HTTP/1.1\r\nHost: x\r\n"] {
            #expect(try exchange(text).response.isEmpty)
            let late = try exchange(text, isClosed: false, until: .now + .milliseconds(5))
            #expect(late.response.isEmpty)
        }
    }
}
