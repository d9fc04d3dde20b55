import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// `latchkey vault`, killed at each of its kill points.
@Suite(.softwareTPM, .requires(program: "swtpm"), .timeLimit(.minutes(15)))
struct VaultKillTests {
    /// A machine with two vaults that the command does not change, one with biometrics.
    private func machine() async throws -> Machine {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        try await machine.require("vault", "store", "plain", input: "bystander")
        try await machine.require(
            "vault", "store", "gated", "--biometrics", pins: ["2580"], input: "bystander")
        return machine
    }

    /// Checks that the other vaults are unchanged.
    private func checkOthers(_ machine: Machine, _ life: KillPoints.Run) async throws {
        #expect(try await machine.run("vault", "show", "plain").output == "bystander", "\(life)")
        let gated = try await machine.run("vault", "show", "gated", pins: ["2580"])
        #expect(gated.output == "bystander", "\(life): \(gated.errors)")
    }

    private func state(_ machine: Machine) async throws -> String? {
        let json = try await machine.run("vault", "status", "app", "--json").json()
        return json["error"]?["code"] == "notFound" ? "empty" : json["state"]?.string
    }

    @Test(arguments: [false, true])
    func `storing stores all or nothing`(isGated: Bool) async throws {
        let machine = try await machine()
        let option = isGated ? "--biometrics" : "--quiet"
        try await machine.cutShort(
            isGated ? .vaultStoreGated : .vaultStore, by: "vault", "store", "app", option,
            pins: ["2580"],
            input: "s3cret"
        ) { machine, life in
            let state = try await state(machine)
            if state == "empty" {
                #expect(life.killedBefore != nil, "\(life)")
                try await machine.require(
                    "vault", "store", "app", option, pins: ["2580"], input: "s3cret")
            } else {
                #expect(state == (isGated ? "locked" : "keychain"), "\(life)")
            }
            let shown = try await machine.run(
                "vault", "show", "app", pins: isGated ? ["2580"] : nil)
            #expect(shown.output == "s3cret", "\(life): \(shown.errors)")
            try await checkOthers(machine, life)
            try await machine.require("vault", "reset", "app", "--yes")
            #expect(
                try await machine.revocableCount() == 1,
                "\(life): the hardware keeps the other vault's key")
        }
    }

    @Test(arguments: [false, true])
    func `an update leaves the new secret or the old one`(isGated: Bool) async throws {
        let machine = try await machine()
        let option = isGated ? "--biometrics" : "--quiet"
        try await machine.require("vault", "store", "app", option, pins: ["2580"], input: "old")
        let pins = isGated ? ["2580"] : nil
        try await machine.cutShort(
            isGated ? .vaultUpdateGated : .vaultUpdate, by: "vault", "update", "app", pins: pins,
            input: "new"
        ) { machine, life in
            let shown = try await machine.run("vault", "show", "app", pins: pins).output
            #expect(
                shown == "new" || shown == "old" && life.killedBefore != nil, "\(life): \(shown)")
            try await machine.require("vault", "update", "app", pins: pins, input: "next")
            try await checkOthers(machine, life)
        }
    }

    @Test(arguments: [true, false])
    func `a change of protection leaves the secret under one or the other`(isUpgrade: Bool)
        async throws
    {
        let base = try await machine()
        let option = isUpgrade ? "--quiet" : "--biometrics"
        let command = isUpgrade ? "upgrade" : "downgrade"
        let states = isUpgrade ? ["keychain", "locked"] : ["locked", "keychain"]
        try await base.cutShort(
            isUpgrade ? .vaultUpgrade : .vaultDowngrade, by: "vault", command, "app",
            pins: ["2580"],
            prepare: { (try await holding("app", option, base), []) },
            check: { machine, life in
                let state = try #require(try await state(machine))
                #expect(
                    state == states[1] || state == states[0] && life.killedBefore != nil,
                    "\(life): \(state)")
                let shown = try await machine.run(
                    "vault", "show", "app", pins: state == "locked" ? ["2580"] : nil)
                #expect(shown.output == "s3cret", "\(life): \(shown.errors)")
                if state == states[0] {
                    try await machine.require("vault", command, "app", pins: ["2580"])
                }
                try await checkOthers(machine, life)
                try await machine.require("vault", "reset", "app", "--yes")
                #expect(
                    try await machine.revocableCount() == 1,
                    "\(life): the hardware keeps the other vault's key")
            })
    }

    /// A copy of the machine with one more vault, whose key belongs to this copy only.
    private func holding(_ name: String, _ option: String, _ base: Machine) async throws -> Machine
    {
        let machine = try base.copy()
        try await machine.require("vault", "store", name, option, pins: ["2580"], input: "s3cret")
        return machine
    }

    @Test func `a removal removes all or nothing`() async throws {
        let base = try await machine()
        try await base.cutShort(
            .vaultReset, by: "vault", "reset", "app", "--yes",
            prepare: { (try await holding("app", "--biometrics", base), []) },
            check: { machine, life in
                if try await state(machine) != "empty" {
                    #expect(life.killedBefore != nil, "\(life)")
                    #expect(
                        try await machine.run("vault", "show", "app", pins: ["2580"]).output
                            == "s3cret", "\(life)")
                    try await machine.require("vault", "reset", "app", "--yes")
                }
                try await checkOthers(machine, life)
                #expect(
                    try await machine.revocableCount() == 1,
                    "\(life): the hardware keeps the other vault's key")
            })
    }
}
