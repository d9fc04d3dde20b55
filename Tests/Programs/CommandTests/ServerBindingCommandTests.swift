import LatchkeySimulators
import LatchkeyTesting
import SystemPackage
import Testing

/// The tool with a login at one server and another server configured.
@Suite(
    .softwareTPM, .requires(program: "swtpm"), .requires(program: "python3"),
    .requires(program: "setsid"),
    .timeLimit(.minutes(15)))
struct ServerBindingCommandTests {
    private static let commands = [
        ["login"], ["enable"], ["authenticate"], ["disable"], ["logout"],
        ["logout", "--keep-biometric"],
    ]

    private func withLogin(_ body: (Machine, _ kid: JSON) async throws -> Void) async throws {
        try await Machine.withServer { machine in
            #expect(try await machine.run("login").status == 0)
            let enable = try await machine.run("enable", "--json", pins: ["2580"])
            #expect(enable.status == 0, "\(enable.errors)")
            try await body(machine, #require(enable.json()["kid"]))
        }
    }

    @Test func `each command ends with 10 and the other server sees no connection`() async throws {
        try await withLogin { machine, kid in
            let silent = try SilentServer()
            let endpoint = try #require(machine.environment["LATCHKEY_ENDPOINT"])
            for command in Self.commands {
                let outcome = try await machine.run(
                    command + ["--endpoint", silent.address, "--json"], pins: ["2580"])
                #expect(outcome.status == 10, "\(command): \(outcome.errors)")
                let error = try outcome.json()["error"]
                #expect(error?["code"] == "conflict")
                let message = error?["message"]?.string ?? ""
                #expect(message.contains("‘\(endpoint)’ (client ‘latchkey-demo’)"), "\(message)")
                #expect(
                    message.contains("‘\(silent.address)’ (client ‘latchkey-demo’)"), "\(message)")
                #expect(!silent.hadVisitor(), "\(command)")
            }
            let status = try await machine.run("status", "--endpoint", silent.address, "--json")
                .json()
            #expect(status["server"] == .string(endpoint))
            #expect(status["isConfiguredServer"] == false)
            #expect(status["kid"] == kid)
            let text = try await machine.run("status", "--endpoint", silent.address).output
            #expect(text.contains("\nThe configured server is a different one"), "\(text)")
            #expect(
                try await machine.run("authenticate", "--json", pins: ["2580"]).json()["kid"] == kid
            )
        }
    }

    @Test func `force removes the login from this machine and the other server sees no connection`()
        async throws
    {
        try await withLogin { machine, _ in
            let silent = try SilentServer()
            let disabled = try await machine.run(
                "disable", "--force", "--endpoint", silent.address, "--json")
            #expect(disabled.status == 0, "\(disabled.errors)")
            let out = try await machine.run(
                "logout", "--force", "--endpoint", silent.address, "--json")
            #expect(out.status == 0, "\(out.errors)")
            #expect(try out.json()["sessionState"] == "NO_SESSION")
            #expect(try out.json()["kid"] == .null)
            #expect(!silent.hadVisitor())
        }
    }
}
