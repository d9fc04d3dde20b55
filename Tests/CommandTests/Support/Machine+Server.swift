import LatchkeySimulators
import LatchkeyTesting

extension Machine {
    /// Lends a machine on the test's own software TPM, whose user has a browser, beside a server.
    static func withServer<R: Sendable>(_ body: (Machine) async throws -> R) async throws -> R {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        return try await IdentityServer.withRunning(database: machine.directory.path(of: "identity.sqlite")) { server in
            var machine = machine
            machine.environment["LATCHKEY_ENDPOINT"] = server.endpoint
            machine.environment["LATCHKEY_CLIENT_ID"] = server.clientID
            machine.environment["BROWSER"] = try ScriptedBrowser(user: server.users[0], in: machine.directory).path
            return try await body(machine)
        }
    }
}
