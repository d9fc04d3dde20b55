import LatchkeySimulators
import LatchkeyTesting
import Testing

/// Biometric login, killed at each of its effects.
@Suite(
    .softwareTPM, .requires(program: "swtpm"), .requires(program: "python3"), .timeLimit(.minutes(15)))
struct LoginKillTests {
    /// A machine whose user has not logged in yet, and a vault beside the login that nobody changes.
    private func withMachine(_ body: (Machine) async throws -> Void) async throws {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let database = machine.directory.path(of: "identity.sqlite")
        try await IdentityServer.withRunning(database: database, life: .seconds(3600), isPatient: true) { server in
            var machine = machine
            machine.environment["LATCHKEY_ENDPOINT"] = server.endpoint
            machine.environment["LATCHKEY_CLIENT_ID"] = server.clientID
            machine.environment["BROWSER"] = try ScriptedBrowser(user: server.users[0], in: machine.directory).path
            try await machine.require("vault", "store", "plain", input: "bystander")
            try await body(machine)
        }
    }

    /// A copy of the machine after a login. A session is of one program at a time: the server takes each refresh token
    /// once.
    private func loggedIn(_ base: Machine) async throws -> Machine {
        let machine = try base.copy()
        try await machine.require("login")
        return machine
    }

    /// Logs in where the session was lost between the server's answer and the commit: no client can help that.
    private func resume(_ machine: Machine, _ life: KillPoints.Life) async throws {
        guard try await machine.run("status", "--json").json()["sessionState"] != "AUTHENTICATED" else { return }
        #expect(life.killedBefore != nil && life.effects.network > 0, "\(life)")
        try await machine.require("login")
    }

    private func isEnabled(_ machine: Machine) async throws -> Bool {
        try await machine.run("status", "--json").json()["biometricEnabled"] == true
    }

    private func enableAgain(_ machine: Machine, _ life: KillPoints.Life) async throws {
        try await resume(machine, life)
        var again = try await machine.run("enable", pins: ["2580"])
        if again.status == 6, life.killedBefore != nil, life.effects.network > 0 {
            // The session is there, and the server has used its refresh token up.
            try await machine.require("login")
            again = try await machine.run("enable", pins: ["2580"])
        }
        #expect(again.status == 0, "\(life): \(again.errors)")
    }

    /// That whoever knows the PIN gets in.
    private func checkLogin(_ machine: Machine, _ life: KillPoints.Life) async throws {
        let login = try await machine.run("authenticate", pins: ["2580"])
        #expect(login.status == 0, "\(life): \(login.errors)")
        #expect(try await machine.run("vault", "show", "plain").output == "bystander", "\(life)")
    }

    @Test func `enabling enables, or leaves it disabled and enabling works`() async throws {
        try await withMachine { base in
            try await base.cutShort(
                .enable, by: "enable", pins: ["2580"],
                prepare: { (try await loggedIn(base), []) },
                check: { machine, life in
                    if try await !isEnabled(machine) {
                        #expect(life.killedBefore != nil, "\(life)")
                        try await enableAgain(machine, life)
                    }
                    try await checkLogin(machine, life)
                    // The server takes so many devices of one user, and no more.
                    try await machine.require("disable")
                    #expect(try await machine.revocableCount() == 0, "\(life): the hardware keeps nothing")
                })
        }
    }

    @Test func `authenticating leaves the key as it was, whatever becomes of the session`() async throws {
        try await withMachine { base in
            let machine = try await loggedIn(base)
            try await machine.require("enable", pins: ["2580"])
            try await machine.cutShort(.authenticate, by: "authenticate", pins: ["2580"]) { machine, life in
                #expect(try await isEnabled(machine), "\(life)")
                try await checkLogin(machine, life)
            }
        }
    }

    @Test func `disabling leaves no key that the server still takes`() async throws {
        try await withMachine { base in
            try await base.cutShort(
                .disable, by: "disable",
                prepare: {
                    let machine = try await loggedIn(base)
                    try await machine.require("enable", pins: ["2580"])
                    return (machine, [])
                },
                check: { machine, life in
                    if try await isEnabled(machine) {
                        #expect(life.killedBefore != nil, "\(life)")
                        try await resume(machine, life)
                        var disabled = try await machine.run("disable")
                        if disabled.status == 6, try await isEnabled(machine) {
                            #expect(life.effects.network > 0, "\(life): \(disabled.errors)")
                            // The session is there, and the server has used its refresh token up.
                            try await machine.require("login")
                            disabled = try await machine.run("disable")
                        }
                        // The server may have forgotten the key already.
                        #expect([0, 6].contains(disabled.status), "\(life): \(disabled.errors)")
                    }
                    #expect(try await machine.run("authenticate", pins: ["2580"]).status == 6, "\(life)")
                    try await enableAgain(machine, life)
                    #expect(try await machine.revocableCount() == 1, "\(life): the hardware keeps one key")
                    try await checkLogin(machine, life)
                    try await machine.require("disable")
                    #expect(try await machine.revocableCount() == 0, "\(life): the hardware keeps nothing")
                })
        }
    }

    @Test func `a logout that keeps the key keeps it`() async throws {
        try await withMachine { base in
            let enabled = try await loggedIn(base)
            try await enabled.require("enable", pins: ["2580"])
            try await enabled.cutShort(
                .logout, by: "logout", "--keep-biometric",
                prepare: {
                    let machine = try enabled.copy()
                    try await machine.require("authenticate", pins: ["2580"])
                    return (machine, [])
                },
                check: { machine, life in
                    #expect(try await isEnabled(machine), "\(life)")
                    try await checkLogin(machine, life)
                })
        }
    }
}
