import Foundation
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import SystemPackage
import Testing

/// The server of `Examples/` with the tool, a software TPM and a scripted browser.
@Suite(
    .softwareTPM, .requires(program: "swtpm"), .requires(program: "python3"),
    .requires(program: "curl"), .timeLimit(.minutes(5)))
struct DeviceServerTests {
    /// A running server, and its environment.
    private struct Server {
        let process: RunningProgram
        let address: String
        let variables: [String]
    }

    private func start(database: String) async throws -> Server {
        let port = try await program(
            "python3",
            [
                "-c",
                "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])",
            ]
        ).trimmingCharacters(in: .whitespacesAndNewlines)
        let variables = ["PORT=\(port)", "DEMO_PASSWORD=secret", "DATABASE=\(database)"]
        let server = try RunningProgram(
            URL(filePath: "/usr/bin/env"), variables + [Self.executable])
        let ready = await server.output { $0.contains("Listening") }
        #expect(ready == "Listening on http://127.0.0.1:\(port)\n")
        return Server(
            process: server, address: "http://127.0.0.1:\(port)", variables: variables)
    }

    private static let executable = Products.directory.appending("device-server").string

    @Test func `log in, enable, authenticate, refuse a removed device`() async throws {
        var machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let server = try await start(database: machine.directory.path(of: "devices.sqlite"))
        machine.environment["LATCHKEY_ENDPOINT"] = server.address
        machine.environment["LATCHKEY_CLIENT_ID"] = "example"
        let user = try JSONDecoder().decode(
            IdentityProcess.User.self, from: Data(#"{"username": "", "password": "secret"}"#.utf8))
        let browser = try ScriptedBrowser(user: user, in: machine.directory)
        machine.environment["BROWSER"] = browser.path

        let login = try await machine.run("login", "--json")
        #expect(login.status == 0, "\(login.errors)")
        #expect(try login.json()["userInfo"]?["sub"] == "alice")
        let enabled = try await machine.run("enable", "--json", pins: ["2580"])
        #expect(enabled.status == 0, "\(enabled.errors)")
        machine.environment["BROWSER"] = "/bin/false"
        let later = try await machine.run("authenticate", "--json", pins: ["2580"])
        #expect(later.status == 0, "\(later.errors)")
        let wrong = try await machine.run("authenticate", pins: ["1111"])
        #expect(wrong.status == 4, "\(wrong.errors)")
        let disabled = try await machine.run("disable", "--json")
        #expect(disabled.status == 0, "\(disabled.errors)")
        let status = try await machine.run("status", "--json").json()
        #expect(status["biometricEnabled"] == false, "\(status)")
        await server.process.stop(SIGTERM)
    }

    @Test func `a port that another program uses is an error that names the setting`()
        async throws
    {
        let directory = try TemporaryDirectory()
        let server = try await start(database: directory.path(of: "devices.sqlite"))
        let second = try await program(
            "/usr/bin/env",
            server.variables + [
                "sh", "-c", #""$0" 2>&1; echo "status $?""#, Self.executable,
            ])
        #expect(second.contains("The server cannot run: "), "\(second)")
        #expect(second.contains("Address already in use"), "\(second)")
        #expect(second.contains("set PORT.") && second.contains("status 1"), "\(second)")
        await server.process.stop(SIGTERM)
    }

    /// The answer to a request for a challenge, with its head.
    private func challenge(_ body: String, at server: Server) async throws -> String {
        try await program(
            "curl",
            [
                "--silent", "--include", "--noproxy", "*", "--data", body,
                "\(server.address)/oauth2/challenge",
            ])
    }

    @Test func `a challenge is issued for the purpose of a login only`() async throws {
        let directory = try TemporaryDirectory()
        let server = try await start(database: directory.path(of: "devices.sqlite"))
        let issued = try await challenge(#"{"purpose":"biometric_request"}"#, at: server)
        #expect(issued.hasPrefix("HTTP/1.1 200") && issued.contains(#""token":""#), "\(issued)")
        for body in [
            #"{"purpose":"locker_request"}"#, #"{"purpose":"other"}"#, "{}", "", #"["a"]"#,
        ] {
            let refused = try await challenge(body, at: server)
            #expect(refused.hasPrefix("HTTP/1.1 400"), "\(body) \(refused)")
            #expect(refused.contains(#""invalid_request""#), "\(refused)")
        }
        await server.process.stop(SIGTERM)
    }

    @Test func `a database that another process uses is answered with 503 and Retry-After`()
        async throws
    {
        let directory = try TemporaryDirectory()
        let database = directory.path(of: "devices.sqlite")
        let server = try await start(database: database)
        let lock = try RunningProgram(
            URL(filePath: "/usr/bin/python3"),
            [
                "-c",
                """
                import signal, sqlite3, sys
                connection = sqlite3.connect(sys.argv[1], isolation_level=None)
                connection.execute('BEGIN EXCLUSIVE')
                print('locked', flush=True)
                signal.pause()
                """, database,
            ])
        _ = await lock.output { $0.contains("locked") }
        let refused = try await challenge(#"{"purpose":"biometric_request"}"#, at: server)
        #expect(refused.hasPrefix("HTTP/1.1 503"), "\(refused)")
        #expect(refused.lowercased().contains("retry-after: 5"), "\(refused)")
        #expect(refused.contains(#""temporarily_unavailable""#), "\(refused)")
        await lock.stop()
        let issued = try await challenge(#"{"purpose":"biometric_request"}"#, at: server)
        #expect(issued.hasPrefix("HTTP/1.1 200"), "\(issued)")
        await server.process.stop(SIGTERM)
    }
}
