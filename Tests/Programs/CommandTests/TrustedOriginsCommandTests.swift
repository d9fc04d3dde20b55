import Foundation
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// Other origins of the server that the user trusts.
@Suite(
    .softwareTPM, .requires(program: "swtpm"), .requires(program: "python3"),
    .timeLimit(.minutes(15)))
struct TrustedOriginsCommandTests {
    /// A server whose discovery document names another origin.
    private static let server = #"""
        import http.server, json
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                own = 'http://127.0.0.1:%d' % self.server.server_port
                names = ['authorization', 'userinfo', 'revocation']
                document = {n + '_endpoint': 'https://login.example/' + n for n in names}
                document |= {'issuer': own, 'token_endpoint': own + '/t', 'jwks_uri': own + '/k'}
                body = json.dumps(document).encode()
                self.send_response(200); self.send_header('Content-Length', str(len(body))); self.end_headers()
                self.wfile.write(body)
            def log_message(self, *_): pass
        server = http.server.HTTPServer(('127.0.0.1', 0), Handler)
        print(server.server_port, flush=True)
        server.serve_forever()
        """#

    @Test func `a list from the environment does not apply to a server from an option`()
        async throws
    {
        let server = try RunningProgram(URL(filePath: "/usr/bin/python3"), ["-c", Self.server])
        let port = await server.output { _ in true }.trimmingCharacters(in: .whitespacesAndNewlines)
        let address = "http://127.0.0.1:\(port)"
        var machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let seen = machine.directory.path(of: "seen")
        machine.environment["BROWSER"] = try machine.directory.makeScript(
            "giving-up", "#!/bin/sh\ntouch '\(seen)'\nkill -TERM $PPID\n")
        machine.environment["LATCHKEY_CLIENT_ID"] = "app"
        machine.environment["LATCHKEY_TRUSTED_ORIGINS"] = "https://login.example"
        let refused = try await machine.run("login", "--endpoint", address, "--json")
        #expect(try refused.json()["error"]?["code"] == "invalidResponse", "\(refused.errors)")
        #expect(
            try refused.json()["error"]?["recovery"]?.string?.hasPrefix("Ask the operator") == true)
        #expect(!FileManager.default.fileExists(atPath: seen))
        // Control: a list from the same source.
        _ = try await machine.run(
            "login", "--endpoint", address, "--trusted-origins", "https://login.example")
        #expect(FileManager.default.fileExists(atPath: seen))
        await server.stop()
    }
}
