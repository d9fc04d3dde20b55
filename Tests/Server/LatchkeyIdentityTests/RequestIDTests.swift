import FoundationEssentials
import HTTPTypes
import Latchkey
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

@Suite("Request IDs") struct RequestIDTests {
    private static let traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
    private static let spanID = "00f067aa0ba902b7"
    private static let header = "00-\(traceID)-\(spanID)-01"

    private static let malformed: [String?] = [
        nil, "", "00", "00-\(traceID)-\(spanID)", "00-\(traceID)-\(spanID)-01-more",
        "01-\(traceID)-\(spanID)-01more",
        "ff-\(traceID)-\(spanID)-01", "00-\(traceID.uppercased())-\(spanID)-01",
        "00-\(traceID)-0000000000000000-01",
        "00-00000000000000000000000000000000-\(spanID)-01", "00-\(traceID)_\(spanID)-01",
        "00-\(traceID)-\(spanID)-0g",
        "00-\(traceID)-\(spanID)-01, 00-\(traceID)-\(spanID)-01",
        String(repeating: "a", count: 8_000),
    ]

    private func send(_ server: TestServer, _ path: String, traceparent: String?) async throws
        -> Answer
    {
        var headers = HTTPFields()
        headers[named: "traceparent"] = traceparent
        return try await server.send(.get, path, headers: headers)
    }

    @Test func `a request has the trace ID of its traceparent, in the response and in the log`()
        async throws
    {
        let log = RecordedLog()
        try await TestServer.run(logger: log.logger) { server in
            for path in ["/oauth2/jwks", "/oauth2/userinfo", "/nothing"] {
                let answer = try await send(server, path, traceparent: Self.header)
                #expect(answer.headers[named: "X-Request-ID"] == Self.traceID, "\(path)")
            }
            let entries = log.text.split(separator: "\n").filter { $0.contains("answered") }
            #expect(entries.count == 3)
            #expect(entries.allSatisfy { $0.contains(Self.traceID) && $0.contains(Self.spanID) })
        }
    }

    @Test(arguments: malformed)
    func `a malformed traceparent is ignored`(traceparent: String?) async throws {
        #expect(traceparent.flatMap(TraceContext.init(traceparent:)) == nil)
        let log = RecordedLog()
        try await TestServer.run(logger: log.logger) { server in
            let answer = try await send(server, "/oauth2/jwks", traceparent: traceparent)
            let id = try #require(answer.headers[named: "X-Request-ID"])
            #expect(
                id.utf8.count == 32 && id.allSatisfy { $0.isHexDigit && !$0.isUppercase }
                    && id != Self.traceID)
            #expect(log.text.contains(id) && !log.text.contains("span_id"))
            #expect(!log.text.contains(String(repeating: "a", count: 64)))
        }
    }

    @Test func `a later version of the header may have more fields`() {
        let trace = TraceContext(
            traceparent: "01-\(Self.traceID)-\(Self.spanID)-01-"
                + String(repeating: "x", count: 9_000))
        #expect(trace?.traceID == Self.traceID && trace?.spanID == Self.spanID)
    }

    @Test func `two requests have different IDs`() async throws {
        try await TestServer.run { server in
            let first = try await send(server, "/oauth2/jwks", traceparent: nil)
            let second = try await send(server, "/oauth2/jwks", traceparent: nil)
            #expect(first.headers[named: "X-Request-ID"] != second.headers[named: "X-Request-ID"])
        }
    }

    @Test func `the log contains no password, code or token`() async throws {
        let log = RecordedLog()
        try await TestServer.run(logger: log.logger) { server in
            let request = AuthorizationParameters()
            let browser = TestBrowser(server: server)
            let code = try #require(
                try await browser.login(request, username: "alice").redirectParameter("code"))
            let tokens = try Tokens(await server.exchange(code: code, request).success())
            try await server.userInfo(tokens.access).success()
            #expect(try await server.userInfo("not-a-valid-token").status == 401)
            let refreshed = try Tokens(await server.refresh(#require(tokens.refresh)).success())
            let secrets = [
                TestServer.password, code, request.verifier, tokens.access,
                try #require(tokens.refresh),
                try #require(tokens.id), refreshed.access, "not-a-valid-token",
                try #require(browser.cookies[TestBrowser.sessionCookie]),
            ]
            #expect(log.text.contains("trace_id"))
            for secret in secrets { #expect(!log.text.contains(secret), "\(secret.prefix(20))") }
        }
    }
}
