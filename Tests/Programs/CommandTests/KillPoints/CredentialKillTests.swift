import Foundation
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// `latchkey credential`, killed at each of its kill points.
@Suite(
    .softwareTPM, .requires(program: "swtpm"), .requires(program: "python3"),
    .timeLimit(.minutes(15)))
struct CredentialKillTests {
    /// A machine with a credential that the command does not change, and its ID.
    private func withMachine(_ body: (Machine, _ bystander: String) async throws -> Void)
        async throws
    {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        try await RotatingServer.withRunning(in: machine.directory) { address in
            var machine = machine
            machine.environment["LATCHKEY_ENDPOINT"] = address
            machine.environment["LATCHKEY_CLIENT_ID"] = "app"
            let bystander = try await add(to: machine, tag: "role=bystander")
            try await body(machine, bystander)
        }
    }

    private func answer() -> String {
        let family = UInt64.random(in: 0 ... .max)
        return #"{"access_token":"access-\#(family)","token_type":"Bearer","expires_in":3600,"#
            + #""refresh_token":"\#(family).0"}"#
    }

    private func add(to machine: Machine, tag: String, pins: [String]? = nil) async throws -> String
    {
        let policy = pins == nil ? [] : ["--policy", "pin"]
        let outcome = try await machine.run(
            ["credential", "add", "--tag", tag, "--json"] + policy, pins: pins, input: answer())
        try #require(outcome.status == 0, "\(outcome)")
        return try #require(outcome.json()["id"]?.string)
    }

    private func ids(_ machine: Machine, _ tag: String) async throws -> [String] {
        let outcome = try await machine.run("credential", "list", "--where", tag, "--json")
        return try #require(outcome.json()["credentials"]?.array).compactMap { $0["id"]?.string }
    }

    /// Checks that the other credential is found and works.
    private func checkOther(_ machine: Machine, _ id: String, _ life: KillPoints.Run) async throws {
        #expect(try await ids(machine, "role=bystander") == [id], "\(life)")
        // Another run already used its refresh token at the server, so only the stored record is
        // checked.
        let shown = try await machine.run("credential", "tag", id, "seen=1")
        #expect(shown.status == 0, "\(life): \(shown.errors)")
    }

    @Test(arguments: [false, true])
    func `adding adds all or nothing`(isGated: Bool) async throws {
        try await withMachine { machine, bystander in
            let option = isGated ? ["--policy", "pin"] : ["--tag", "a=1"]
            let pins = isGated ? ["2580"] : nil
            try await machine.cutShort(
                isGated ? .credentialAddGated : .credentialAdd, by: "credential", "add", "--tag",
                "role=new",
                option[0], option[1], pins: pins,
                input: answer()
            ) { machine, life in
                var new = try await ids(machine, "role=new")
                if new.isEmpty {
                    #expect(life.killedBefore != nil, "\(life)")
                    new = [try await add(to: machine, tag: "role=new", pins: pins)]
                }
                #expect(new.count == 1, "\(life)")
                let refreshed = try await machine.run("credential", "refresh", new[0], pins: pins)
                // The first run used the token, which the server accepts once.
                #expect([0, 9].contains(refreshed.status), "\(life): \(refreshed.errors)")
                try await checkOther(machine, bystander, life)
            }
        }
    }

    @Test
    func
        `a refresh leaves the new token or the old one, or reports that the server has consumed it`()
        async throws
    {
        try await withMachine { base, bystander in
            try await base.cutShort(
                .credentialRefresh, by: "credential", "refresh",
                prepare: {
                    let machine = try base.copy()
                    let id = try await add(to: machine, tag: "role=refreshed")
                    return (machine, [id])
                },
                check: { machine, life in
                    let id = try #require(try await ids(machine, "role=refreshed").first, "\(life)")
                    let again = try await machine.run("credential", "refresh", id, "--json")
                    // If the program is killed between the server's answer and the commit, a server
                    // that accepts a refresh token once has consumed it. The client cannot prevent
                    // that.
                    let wasAsked = life.killedBefore != nil && life.effects.network > 1
                    #expect(
                        again.status == 0 || again.status == 9 && wasAsked,
                        "\(life): \(again.output)")
                    try await checkOther(machine, bystander, life)
                })
        }
    }

    @Test(arguments: ["revoke", "remove"])
    func `a removal removes all or nothing`(command: String) async throws {
        try await withMachine { base, bystander in
            var id = ""
            try await base.cutShort(
                command == "revoke" ? .credentialRevoke : .credentialRemove, by: "credential",
                command,
                prepare: {
                    let machine = try base.copy()
                    id = try await add(to: machine, tag: "role=old")
                    return (machine, [id])
                },
                check: { machine, life in
                    let left = try await ids(machine, "role=old")
                    #expect(left.isEmpty || left == [id] && life.killedBefore != nil, "\(life)")
                    if !left.isEmpty { try await machine.require("credential", command, id) }
                    #expect(try await ids(machine, "role=old").isEmpty, "\(life)")
                    try await checkOther(machine, bystander, life)
                })
        }
    }
}
