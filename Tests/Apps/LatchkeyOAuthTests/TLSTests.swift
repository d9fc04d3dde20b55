import Foundation
import HTTPTypes
import Latchkey
import LatchkeySimulators
import LatchkeyTesting
import Subprocess
import Testing

@testable import LatchkeyOAuth

/// Servers with certificates of a private authority.
@Suite(.requires(program: "openssl"), .timeLimit(.minutes(2)))
struct TLSTests {
    /// Runs a server for the time of `body`.
    ///
    /// - Parameters:
    ///   - name: The host in the certificate.
    ///   - hasExpired: Whether the certificate has expired.
    ///   - arguments: More arguments of `openssl s_server`.
    private func withServer(
        for name: String = "localhost", hasExpired: Bool = false, _ arguments: [String] = [],
        _ body: (_ port: String, _ certificate: String) async throws -> Void
    ) async throws {
        let directory = try TemporaryDirectory()
        let (key, certificate) = (directory.path(of: "key"), directory.path(of: "cert"))
        let made = try await run(
            .name("openssl"),
            arguments: [
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", key,
                "-out", certificate, "-days", "2", "-subj", "/CN=\(name)", "-addext",
                "subjectAltName=DNS:\(name)",
            ], output: .discarded)
        try #require(made.terminationStatus.isSuccess)
        if hasExpired {
            let changed = try await run(
                .name("openssl"),
                arguments: [
                    "x509", "-in", certificate, "-signkey", key, "-days", "-1", "-out", certificate,
                ], output: .discarded)
            try #require(changed.terminationStatus.isSuccess)
        }
        _ = try await run(
            .name("openssl"),
            arguments: .init(
                ["s_server", "-accept", "127.0.0.1:0", "-key", key, "-cert", certificate, "-www"]
                    + arguments),
            input: .none, output: .sequence, error: .discarded
        ) { execution in
            var text = ""
            for try await chunk in execution.standardOutput {
                text += chunk.withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
                if let match = text.firstMatch(of: /ACCEPT [^:\n]*:([0-9]+)\n/) {
                    try await body(String(match.1), certificate)
                    await execution.teardown(using: [])
                    return
                }
            }
            Issue.record("openssl did not start: \(text)")
        }
    }

    private func request(_ port: String) -> HTTPRequest {
        HTTPRequest(method: .get, scheme: "https", authority: "localhost:\(port)", path: "/")
    }

    @Test(arguments: ["-tls1_3", "-tls1_2"])
    func `a server with a certificate of a trusted authority answers`(version: String) async throws
    {
        try await withServer([version]) { port, certificate in
            let transport = CurlTransport(
                limits: .init(timeoutSeconds: 300), authorities: certificate)
            let (response, body) = try await transport.send(request(port), body: [])
            #expect(response.status.code == 200)
            #expect(String(decoding: body, as: UTF8.self).contains("s_server"))
        }
    }

    @Test func `a certificate of an unknown authority is refused`() async throws {
        try await withServer { port, _ in
            let error = await #expect(throws: KeystoreError.self) {
                try await CurlTransport(timeout: 300).send(request(port), body: [])
            }
            #expect(error?.code == .unavailable)
            #expect(
                error?.reason
                    == "the TLS certificate of localhost:\(port) is not trusted: no authority in the system's trust store issued it",
                "\(error as Any)")
            #expect(error?.recovery.contains("trust store") == true)
            #expect(error?.underlying?.layer == "tls")
        }
    }

    @Test func `an expired certificate is refused with this cause`() async throws {
        try await withServer(hasExpired: true) { port, certificate in
            let error = await #expect(throws: KeystoreError.self) {
                try await CurlTransport(
                    limits: .init(timeoutSeconds: 300), authorities: certificate
                ).send(
                    request(port), body: [])
            }
            #expect(
                error?.reason
                    == "the TLS certificate of localhost:\(port) is not trusted: it has expired",
                "\(error as Any)")
            #expect(error?.recovery.contains("clock") == true)
        }
    }

    @Test func `a certificate of another host is refused`() async throws {
        try await withServer(for: "other.test") { port, certificate in
            let error = await #expect(throws: KeystoreError.self) {
                try await CurlTransport(
                    limits: .init(timeoutSeconds: 300), authorities: certificate
                ).send(
                    request(port), body: [])
            }
            #expect(error?.code == .unavailable)
            #expect(
                error?.reason
                    == "the TLS certificate of the server at localhost:\(port) is for another host",
                "\(error as Any)")
            #expect(error?.underlying?.layer == "tls")
        }
    }

    @Test func `a server with an older version than TLS 1.2 is refused`() async throws {
        try await withServer(["-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0"]) { port, certificate in
            let error = await #expect(throws: KeystoreError.self) {
                try await CurlTransport(
                    limits: .init(timeoutSeconds: 300), authorities: certificate
                ).send(
                    request(port), body: [])
            }
            #expect(error?.code == .unavailable)
            #expect(error?.underlying?.text.contains("protocol version") == true, "\(error as Any)")
        }
    }

    @Test func `the client does not offer HTTP/2`() async throws {
        try await RawServer.with("") { server in
            let request = HTTPRequest(
                method: .get, scheme: "https", authority: server.authority, path: "/")
            await #expect(throws: keystore(.unavailable)) {
                try await CurlTransport(timeout: 300).send(request, body: [])
            }
            // The protocols that the client offers (RFC 7301 section 3.1), each with its length
            // before it.
            let hello = try #require(server.requests.first)
            #expect(hello.contains("\u{8}http/1.1"))
            #expect(!hello.contains("\u{2}h2"))
        }
    }
}
