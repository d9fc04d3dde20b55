import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// A machine after an administrator revoked it: a real server, a software TPM and a scripted
/// browser.
@Suite(
    .softwareTPM, .requires(program: "swtpm"), .requires(program: "python3"),
    .timeLimit(.minutes(15)))
struct RevocationCommandTests {
    @Test(arguments: [true, false])
    func `a revoked machine is logged out, and needs the password to set up a key`(
        authenticates: Bool
    ) async throws {
        try await Machine.withServer { machine in
            #expect(try await machine.run("login").status == 0)
            #expect(try await machine.run("enable", pins: ["2580"]).status == 0)
            let revoked = try await SystemProgram(IdentityProcess.program).result(
                of: [
                    "devices", "revoke", "--user", "alice", "--database",
                    machine.directory.path(of: "identity.sqlite"),
                ])
            #expect(revoked.status == 0)
            #expect(revoked.output == "Removed devices: 1. All sessions of the user ended.\n")

            if authenticates {
                #expect(try await machine.run("authenticate", pins: ["2580"]).status == 6)
                let status = try await machine.run("status", "--json").json()
                #expect(status["sessionState"] == "NO_SESSION")
                #expect(status["biometricEnabled"] == false)
            } else {
                #expect(try await machine.run("disable", "--force").status == 0)
            }
            let refused = try await machine.run("enable", pins: ["2580"])
            #expect(refused.status == 6, "\(refused)")
            #expect(refused.errors.contains("Run ‘latchkey login’"), "\(refused.errors)")
            let status = try await machine.run("status", "--json").json()
            #expect(status["sessionState"] == "NO_SESSION")

            #expect(try await machine.run("login").status == 0)
            #expect(try await machine.run("enable", pins: ["2580"]).status == 0)
            #expect(try await machine.run("authenticate", pins: ["2580"]).status == 0)
        }
    }
}
