import Foundation
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import SystemPackage
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

    /// Swift would replace the bytes, and the command would use another name or file.
    @Test func `bytes that are no UTF-8, and very long texts, are refused in each place`()
        async throws
    {
        let machine = try Machine(tcti: "device:/nonexistent/tpm")
        func run(_ text: String, _ script: String) async throws -> Outcome {
            try await machine.run(
                ["-c", "T=$(printf '\(text)') && \(script)", Products.latchkey.string],
                program: "/bin/bash")
        }
        let places = [
            "$0 key create --label \"$T\"", "$0 key list --store \"$T\"",
            "$0 key list \"--store=$T\"",
            "$0 key list --container \"$T\"", "$0 key sign x \"$T\"", "$0 key show \"$T\"",
            "$0 vault store \"$T\"", "$0 credential add --tag \"k=$T\"",
            "$0 key list --tcti \"$T\"",
            "$0 status --client-id \"$T\"", "$0 ssh restrict x --host \"$T\"",
            "$0 passkey rename x \"$T\"", "$0 token init --label \"$T\"",
            "$0 config set store \"$T\"",
            "$0 \"$T\"", "$0 key \"$T\"", "$0 key list \"--$T\"",
            "LATCHKEY_STORE=\"$T\" $0 key list", "LATCHKEY_CLIENT_ID=\"$T\" $0 status",
            "HOME=\"$T\" $0 key list", "XDG_DATA_HOME=\"/$T\" $0 key list",
        ]
        for place in places {
            let bytes = try await run(#"a\xff\xfeb"#, place)
            #expect(bytes.status == 2, "\(place): \(bytes)")
            #expect(bytes.errors.contains("is not text in UTF-8"), "\(place): \(bytes.errors)")
            expectHarmless(bytes)
            let long = try await run("%0100000d", place)
            #expect(long.status == 2, "\(place): \(long.errors.prefix(300))")
            #expect(long.errors.contains("is longer than 8192 bytes"), "\(place)")
            #expect(long.errors.utf8.count < 400, "\(place)")
        }
        let json = try await run(#"\xc3"#, "$0 key show --json \"$T\"")
        #expect(try json.json()["error"]?["code"] == "invalidInput")
        for service in [Products.agent, Products.passkeys] {
            let outcome = try await machine.run(
                ["-c", #"exec "$0" --store "$(printf 'a\xff')""#, service.string],
                program: "/bin/bash")
            #expect(outcome.status == 2 && outcome.errors.contains("UTF-8"), "\(outcome)")
        }
        let left = try FileManager.default.contentsOfDirectory(
            atPath: machine.directory.path(of: "data"))
        #expect(left.isEmpty, "no directory was made: \(left)")
    }

    @Test func `a setting with a control or invisible character is refused, wherever it is`()
        async throws
    {
        let machine = try Machine(tcti: "device:/nonexistent/tpm")
        let folder = machine.directory.path(of: "config/latchkey")
        try FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: true)
        let settings = [
            "container": "a", "store": "/tmp/a", "tcti": "swtpm:path=/a", "token": "pkcs11:token=a",
            "endpoint": "https://a", "client-id": "a", "pin-source": "file:/a",
            "trusted-origins": "https://a", "agent-socket": "/a",
        ]
        for (name, value) in settings {
            // A NUL can only be in the file.
            for character in ["\u{0}", "\u{1B}", "\n", "\u{202E}", "\u{200B}", "\u{9B}"] {
                let text = value + character + "b"
                let file = URL(filePath: folder + "/config.json")
                try JSONEncoder().encode([name: text]).write(to: file)
                let configured = try await machine.run("status")
                #expect(
                    configured.status == 2, "\(name) \(character.debugDescription): \(configured)")
                #expect(
                    configured.errors.contains("Correct ‘\(name)’ in \(file.path)"),
                    "\(configured.errors)")
                expectHarmless(configured)
                try FileManager.default.removeItem(at: file)
                guard character != "\u{0}" else { continue }
                let variable =
                    "LATCHKEY_" + name.uppercased().replacing("-", with: "_")
                let outcomes = [
                    try await machine.run("status", extra: [variable: text]),
                    try await machine.run("config", "set", name, text),
                ]
                for outcome in outcomes {
                    #expect(
                        outcome.status == 2, "\(name) \(character.debugDescription): \(outcome)")
                    expectHarmless(outcome)
                }
            }
        }
        #expect(!FileManager.default.fileExists(atPath: folder + "/config.json"))
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
