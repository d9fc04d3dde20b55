import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting

extension Machine {
    /// Runs `body` with an identity server and a machine with the test's software TPM and a
    /// scripted browser.
    static func withServer<R: Sendable>(
        _ body: (Machine) async throws -> R
    ) async throws -> R {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        return try await IdentityProcess.withRunning(
            database: machine.directory.path(of: "identity.sqlite")
        ) { server in
            try await body(machine.at(server))
        }
    }

    /// The machine at a server, with a browser that logs its first user in.
    func at(_ server: IdentityProcess) throws -> Machine {
        var machine = self
        machine.environment["LATCHKEY_ENDPOINT"] = server.endpoint
        machine.environment["LATCHKEY_CLIENT_ID"] = server.clientID
        machine.environment["BROWSER"] = try ScriptedBrowser(
            user: server.users[0], in: directory
        ).path
        return machine
    }
}
