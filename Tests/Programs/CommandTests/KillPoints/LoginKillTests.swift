import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// Biometric login, killed at each of its kill points.
@Suite(
    .softwareTPM, .requires(program: "swtpm"), .requires(program: "python3"),
    .timeLimit(.minutes(15)))
struct LoginKillTests {
    /// A machine before the first login, with a vault that the command does not change.
    private func withMachine(_ body: (Machine) async throws -> Void) async throws {
        try await Machine.withServer { machine in
            try await machine.require("vault", "store", "plain", input: "bystander")
            try await body(machine)
        }
    }

    /// A copy of the machine after a login. Only one copy can use a session: the server accepts
    /// each refresh token once.
    private func loggedIn(_ base: Machine) async throws -> Machine {
        let machine = try base.copy()
        try await machine.require("login")
        return machine
    }

    /// Logs in again if the session was lost between the server's answer and the commit, which no
    /// client can prevent.
    private func resume(_ machine: Machine, _ life: KillPoints.Run) async throws {
        guard try await machine.run("status", "--json").json()["sessionState"] != "AUTHENTICATED"
        else { return }
        #expect(life.killedBefore != nil && life.effects.network > 0, "\(life)")
        try await machine.require("login")
    }

    private func isEnabled(_ machine: Machine) async throws -> Bool {
        try await machine.run("status", "--json").json()["biometricEnabled"] == true
    }

    private func enableAgain(_ machine: Machine, _ life: KillPoints.Run) async throws {
        try await resume(machine, life)
        var again = try await machine.run("enable", pins: ["2580"])
        if again.status == 6, life.killedBefore != nil, life.effects.network > 0 {
            // The session exists, and the server has consumed its refresh token.
            try await machine.require("login")
            again = try await machine.run("enable", pins: ["2580"])
        }
        #expect(again.status == 0, "\(life): \(again.errors)")
    }

    /// Checks that the PIN logs in.
    private func checkLogin(_ machine: Machine, _ life: KillPoints.Run) async throws {
        let login = try await machine.run("authenticate", pins: ["2580"])
        #expect(login.status == 0, "\(life): \(login.errors)")
        #expect(try await machine.run("vault", "show", "plain").output == "bystander", "\(life)")
    }

    @Test func `enabling completes, or biometric login stays disabled and enabling works`()
        async throws
    {
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
                    // The server limits the devices of one user.
                    try await machine.require("disable")
                    #expect(
                        try await machine.revocableCount() == 0,
                        "\(life): the hardware keeps nothing")
                })
        }
    }

    @Test func `authenticating does not change the key, with or without a session`() async throws {
        try await withMachine { base in
            let machine = try await loggedIn(base)
            try await machine.require("enable", pins: ["2580"])
            try await machine.cutShort(.authenticate, by: "authenticate", pins: ["2580"]) {
                machine, life in
                #expect(try await isEnabled(machine), "\(life)")
                try await checkLogin(machine, life)
            }
        }
    }

    @Test func `disabling leaves no key that the server accepts`() async throws {
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
                            // The session exists, and the server has consumed its refresh token.
                            try await machine.require("login")
                            disabled = try await machine.run("disable")
                        }
                        // The server may have removed the key already.
                        #expect([0, 6].contains(disabled.status), "\(life): \(disabled.errors)")
                    }
                    #expect(
                        try await machine.run("authenticate", pins: ["2580"]).status == 6, "\(life)"
                    )
                    try await enableAgain(machine, life)
                    #expect(
                        try await machine.revocableCount() == 1,
                        "\(life): the hardware keeps one key")
                    try await checkLogin(machine, life)
                    try await machine.require("disable")
                    #expect(
                        try await machine.revocableCount() == 0,
                        "\(life): the hardware keeps nothing")
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
