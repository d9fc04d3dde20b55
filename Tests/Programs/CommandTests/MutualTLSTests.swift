import Foundation
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import SystemPackage
import Testing

/// The TLS client of `Examples/` with OpenSSL's server, which requires a certificate.
@Suite(
    .softwareTPM, .requires(program: "swtpm"), .requires(program: "python3"),
    .requires(program: "openssl"), .timeLimit(.minutes(10)))
struct MutualTLSTests {
    private static let client = ".build/debug/mutual-tls"

    /// OpenSSL as the authority: makes the certificates of the server and, from the request that the
    /// TPM's key signed, of the client.
    private static let authority = """
        set -e
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=authority \
            -keyout ca.key -out ca.pem -days 2
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost \
            -addext subjectAltName=DNS:localhost -keyout server.key -out server.csr
        for name in server client; do
            openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
                -copy_extensions copy -out $name.pem
        done
        """

    private func run(
        _ command: String, pins: Int, on machine: Machine, pin: String = "258036"
    ) async throws -> [String] {
        try await Transcript.run(
            .init(command: command, lines: Array(repeating: "PIN:", count: pins)), on: machine,
            pin: pin)
    }

    @Test func `a server that requires a certificate accepts the TPM's key, and no other`()
        async throws
    {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        // A new PIN twice, and the PIN for the signature of the request.
        let asked = try await run(
            "\(Self.client) request laptop > client.csr", pins: 3, on: machine)
        #expect(asked.count { $0.hasSuffix("PIN:") || $0.hasSuffix("again:") } == 3, "\(asked)")
        try await program("sh", ["-c", "cd \(machine.directory.path) && \(Self.authority)"])

        let file = machine.directory.path(of:)
        let server = try RunningProgram(
            URL(filePath: "/usr/bin/openssl"),
            [
                "s_server", "-accept", "127.0.0.1:0", "-cert", file("server.pem"), "-key",
                file("server.key"), "-CAfile", file("ca.pem"), "-Verify", "1",
                "-verify_return_error", "-www",
            ])
        let ready = await server.output { $0.contains("ACCEPT ") }
        let port = try #require(ready.firstMatch(of: /ACCEPT 127\.0\.0\.1:(\d+)/)?.1, "\(ready)")

        let get = "\(Self.client) get localhost \(port)"
        let shown = try await run("\(get) client.pem ca.pem", pins: 1, on: machine)
        #expect(shown.contains { $0.contains("your PIN to log in to localhost") }, "\(shown)")
        #expect(shown.contains("HTTP/1.0 200 ok"), "\(shown)")
        #expect(shown.contains("Subject: CN=laptop"), "the server's page has the certificate")

        let wrong = try await run(
            "\(get) client.pem ca.pem", pins: 1, on: machine, pin: "111111")
        #expect(wrong.contains { $0.contains("2 attempts are left") }, "\(wrong)")
        #expect(!wrong.contains { $0.contains("200 ok") })
        // The certificate of another key: the TPM's signature does not fit.
        let other = try await run("\(get) server.pem ca.pem", pins: 1, on: machine)
        #expect(!other.contains { $0.contains("200 ok") }, "\(other)")
        await server.stop(SIGTERM)
    }
}
