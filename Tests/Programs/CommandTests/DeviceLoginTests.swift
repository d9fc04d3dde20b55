import Foundation
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import SystemPackage
import Testing

/// Logins without a browser on this machine.
@Suite(.softwareTPM, .requires(program: "swtpm"), .timeLimit(.minutes(15)))
struct DeviceLoginTests {
    /// Runs `latchkey login --device` at Authlib's device grant. Calls `visit` with the lines that
    /// the user sees.
    private func logIn(
        lifetime: Int = 600, _ visit: (Machine, _ shown: [String]) async throws -> Void
    ) async throws -> (outcome: Outcome, shown: [String]) {
        try await DeviceProvider.withRunning(lifetime: lifetime) { issuer in
            var machine = try Machine(tcti: SoftwareTPM.current.tcti)
            machine.environment["LATCHKEY_ENDPOINT"] = issuer
            machine.environment["LATCHKEY_CLIENT_ID"] = "app"
            let shown = machine.directory.path(of: "shown")
            let login = Task { [machine] in
                try await machine.run(
                    "-c", #"exec "$0" login --device --quiet --json 2>"$1""#,
                    Products.latchkey.string, shown, program: "/bin/sh")
            }
            try #require(await poll { Self.lines(shown).count == 4 })
            try await visit(machine, Self.lines(shown))
            let outcome = try await login.value
            if outcome.status == 0 {
                let status = try await machine.run("status", "--json").json()
                #expect(status["sessionState"] == "AUTHENTICATED")
            }
            return (outcome, Self.lines(shown))
        }
    }

    private static func lines(_ path: String) -> [String] {
        let text = try? String(contentsOfFile: path, encoding: .utf8)
        return (text ?? "").split(separator: "\n").map(String.init)
    }

    private func open(_ page: String, allow: Bool) async throws {
        let answer = try await SystemProgram("curl").result(of: [
            "--silent", "--noproxy", "*", "\(page)&allow=\(allow ? 1 : 0)",
        ])
        #expect(answer.output == "decided")
    }

    @Test(.requiresOpenIDProvider, .requires(program: "curl"))
    func `the code and the page that the user sees log in at an independent server`() async throws {
        let (outcome, shown) = try await logIn { _, shown in
            let code = try #require(
                shown[0].firstMatch(of: /enter the code (?<code>[A-Z0-9-]+) there/)?.code)
            let page = shown[1].replacing("latchkey: ", with: "")
            #expect(page.hasSuffix("/device"))
            #expect(shown[3] == "latchkey: \(page)?user_code=\(code)")
            try await open("\(page)?user_code=\(code)", allow: true)
        }
        #expect(outcome.status == 0, "\(outcome)")
        #expect(try outcome.json()["userInfo"]?["sub"] == "jane")
        #expect(shown.count == 4)
    }

    @Test(.requiresOpenIDProvider, .requires(program: "curl"))
    func `a login that the user refuses ends with 3`() async throws {
        let (outcome, _) = try await logIn { _, shown in
            try await open(shown[3].replacing("latchkey: ", with: ""), allow: false)
        }
        #expect(outcome.status == 3, "\(outcome)")
        #expect(
            try outcome.json()["error"]?["message"]
                == "Could not log in: the login was cancelled in the browser.")
    }

    @Test(.requiresOpenIDProvider)
    func `a login that is not finished in time ends with 3`() async throws {
        let (outcome, _) = try await logIn(lifetime: 3) { _, shown in
            #expect(shown[0].hasSuffix("The login waits 1 minute."))
        }
        #expect(outcome.status == 3, "\(outcome)")
        #expect(try outcome.json()["error"]?["code"] == "timedOut")
    }

    @Test(.requires(program: "python3"), .requires(program: "openssl"))
    func `a server without the endpoint is an error with a tunnel as the next step`() async throws {
        try await OddServer.with { machine, server in
            let outcome = try await machine.run("login", "--device", "--json")
            #expect(outcome.status == 1, "\(outcome)")
            let error = try #require(outcome.json()["error"])
            #expect(error["code"] == "unsupported")
            #expect(error["recovery"]?.string?.contains("‘ssh -L 8400:127.0.0.1:8400’") == true)
            #expect(error["recovery"]?.string?.contains("--callback-port 8400") == true)
            #expect(server.requests == ["GET /.well-known/openid-configuration"])
        }
    }

    // MARK: The port of the browser's answer

    @Test(
        .requires(program: "python3"), .requires(program: "openssl"), .requires(program: "curl"))
    func `--callback-port names the port, also directly after a login`() async throws {
        try await OddServer.with { machine, server in
            let port = try FreePort().number
            for _ in 0..<2 {
                let outcome = try await machine.run("login", "--callback-port", "\(port)")
                #expect(outcome.status == 0, "\(outcome)")
                #expect(outcome.errors.contains("http://127.0.0.1:\(port)/start/"), "\(outcome)")
            }
        }
    }

    @Test(.requires(program: "python3"), .requires(program: "openssl"))
    func `a port that another program uses is an error that names it`() async throws {
        try await OddServer.with { machine, server in
            let port = try #require(server.address.split(separator: ":").last)
            let outcome = try await machine.run("login", "--callback-port", "\(port)", "--json")
            #expect(outcome.status == 7, "\(outcome)")
            let error = try #require(outcome.json()["error"])
            #expect(
                error["message"]?.string
                    == "Could not log in: the port \(port) of the loopback interface cannot be opened: "
                    + "Address already in use.")
            #expect(
                error["recovery"]?.string
                    == "Choose a port from 1024 to 65535 that no other program uses.")
        }
    }

    @Test(arguments: [
        ["--callback-port", "0"], ["--callback-port", "65536"], ["--callback-port", "x"],
        ["--device", "--callback-port", "8400"],
    ])
    func `a port that cannot be used is a usage error`(arguments: [String]) async throws {
        let outcome = try await Machine(tcti: nil).run(["login"] + arguments)
        #expect(outcome.status == 2, "\(outcome)")
    }

    @Test(
        .requires(program: "python3"), .requires(program: "openssl"), .requires(program: "curl"),
        arguments: [
            ([:], false), (["SSH_CONNECTION": "192.0.2.1 50000 192.0.2.2 22"], true),
            (["SSH_CONNECTION": "192.0.2.1 50000 192.0.2.2 22", "DISPLAY": ":10"], false),
        ] as [([String: String], Bool)])
    func `an SSH session without a display is told of --device and of the port forwarding`(
        extra: [String: String], isTold: Bool
    ) async throws {
        try await OddServer.with { machine, _ in
            let outcome = try await machine.run("login", extra: extra)
            #expect(outcome.status == 0, "\(outcome)")
            #expect(outcome.errors.contains("‘latchkey login --device’") == isTold, "\(outcome)")
            #expect(outcome.errors.contains("‘ssh -L ") == isTold, "\(outcome)")
            #expect(!outcome.errors.contains("\u{FFFD}"), "\(outcome)")
        }
    }
}

/// A port that was free when the value was made.
private struct FreePort {
    let number: UInt16

    init() throws {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let status = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, length) == 0 && getsockname(descriptor, $0, &length) == 0
            }
        }
        try #require(status)
        number = UInt16(bigEndian: address.sin_port)
    }
}
