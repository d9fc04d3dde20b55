import Foundation
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import SystemPackage
import Testing

/// The server of `Examples/` with the tool, a software TPM and a scripted browser.
@Suite(
    .softwareTPM, .requires(program: "swtpm"), .requires(program: "python3"),
    .timeLimit(.minutes(5)))
struct DeviceServerTests {
    @Test func `log in, enable, authenticate, refuse a removed device`() async throws {
        var machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let port = try await program(
            "python3",
            [
                "-c",
                "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])",
            ]
        ).trimmingCharacters(in: .whitespacesAndNewlines)
        let server = try RunningProgram(
            URL(filePath: "/usr/bin/env"),
            [
                "PORT=\(port)", "DEMO_PASSWORD=secret",
                "DATABASE=\(machine.directory.path(of: "devices.sqlite"))",
                Products.directory.appending("device-server").string,
            ])
        let ready = await server.output { $0.contains("Listening") }
        #expect(ready == "Listening on http://127.0.0.1:\(port)\n")
        machine.environment["LATCHKEY_ENDPOINT"] = "http://127.0.0.1:\(port)"
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
        await server.stop(SIGTERM)
    }
}
