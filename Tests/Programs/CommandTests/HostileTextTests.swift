import Foundation
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// Control characters in text from a server, a token and a label.
@Suite(.timeLimit(.minutes(15)))
struct HostileTextTests {
    /// Clear screen, direction override, C1 control, line separator, direction mark, zero-width
    /// space.
    private static let hostile = "a\u{1B}[2Jb\u{202E}c\u{9B}d\u{2028}e\u{200F}f\u{200B}g"

    private func expectHarmless(
        _ outcome: Outcome, sourceLocation: SourceLocation = #_sourceLocation
    ) {
        for text in [outcome.output, outcome.errors] {
            let control = text.unicodeScalars.first { !$0.isVisible && $0 != "\n" }
            #expect(control == nil, "\(text.debugDescription)", sourceLocation: sourceLocation)
        }
    }

    @Test(.requires(program: "softhsm2-util")) func `a token's label cannot control the terminal`()
        async throws
    {
        let (machine, token) = try await Machine.withToken(label: "a\u{1B}[2Jb\u{202E}c")
        for arguments in [
            ["token", "list"], ["token", "list", "--verbose"], ["token", "list", "--json"],
            ["doctor"],
            ["key", "create"],
        ] {
            let outcome = try await machine.run(arguments, pins: ["123456"])
            #expect(!outcome.output.isEmpty || !outcome.errors.isEmpty)
            expectHarmless(outcome)
        }
        withExtendedLifetime(token) {}
    }

    /// Escape sequences, line ends, direction overrides and invisible characters, also alone.
    private static let refused = [
        hostile, "a\nb", "a\rb", "a\u{1B}b", "a\u{85}b", "a\u{202E}b", "a\u{2067}b",
        "a\u{2028}b", "a\u{200B}b", "a\u{200F}b", "a\u{AD}b", "a\u{E0041}b",
    ]

    @Test(.softwareTPM, .requires(program: "swtpm"))
    func `a name that could control a terminal or a prompt is refused`() async throws {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        for policy in ["pin", "none"] {
            let created = try await machine.run(
                "key", "create", "--policy", policy, "--label", policy, pins: ["258025"])
            try #require(created.status == 0, "\(created.errors)")
        }
        for name in Self.refused {
            for arguments in [
                ["key", "create", "--label", name], ["key", "create", "--ssh", "--label", name],
                ["key", "rename", "none", name], ["vault", "store", name],
                ["key", "list", "--container", name],
            ] {
                let outcome = try await machine.run(arguments, input: "a secret\n")
                #expect(outcome.status == 2, "\(arguments): \(outcome.output) \(outcome.errors)")
                expectHarmless(outcome)
            }
        }
        #expect(try await machine.run("key", "list").output.split(separator: "\n").count == 2)
    }

    @Test(.softwareTPM, .requires(program: "swtpm"))
    func `a label that another program wrote into the store cannot control the terminal`()
        async throws
    {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let created = try await machine.run(
            "key", "create", "--policy", "none", "--label", "plain", "--json")
        let id = try #require(created.json()["id"]?.string, "\(created.errors)")
        let row = try storedKey(machine, id)
        try #require(row.contains("\"plain\""))
        let label = String(decoding: try JSONEncoder().encode(Self.hostile), as: UTF8.self)
        try store(machine, id, row.replacing("\"plain\"", with: label))
        let listed = try await machine.run("key", "list")
        #expect(listed.output.contains("a\u{FFFD}[2Jb\u{FFFD}c\u{FFFD}d"), "\(listed.output)")
        for arguments in [["key", "list"], ["key", "list", "--json"], ["key", "show", id]] {
            expectHarmless(try await machine.run(arguments))
        }
    }

    @Test(.requires(program: "python3"), .softwareTPM)
    func `a server's text cannot control the terminal`() async throws {
        let server = try RunningProgram(
            URL(filePath: "/usr/bin/python3"), ["-c", Self.server, Self.hostile])
        let address = await server.output { $0.hasPrefix("http") }.trimmingCharacters(in: .newlines)
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        for arguments in [
            ["login"], ["login", "--json"], ["login", "--verbose"], ["doctor"], ["status"],
            ["locker", "start"],
        ] {
            let outcome = try await machine.run(
                arguments,
                extra: [
                    "LATCHKEY_ENDPOINT": address, "LATCHKEY_CLIENT_ID": "app", "BROWSER": "true",
                ])
            expectHarmless(outcome)
        }
        await server.stop(SIGKILL)
    }

    /// Answers every request with an error.
    private static let server = #"""
        import http.server, json, sys
        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                text = sys.argv[1]
                body = json.dumps({'error': text, 'error_description': text, 'error_uri': text, 'message': text,
                                   'issuer': text, 'name': text, 'reason': text, 'code': 400}).encode()
                self.send_response_only(400, 'Bad')
                self.send_header('Content-Type', 'application/json')
                self.send_header('Content-Length', str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            do_GET = do_POST = answer
            def log_message(self, *rest): pass
        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        print('http://127.0.0.1:%d' % server.server_port, flush=True)
        server.serve_forever()
        """#
}
