import LatchkeySimulators
import LatchkeyTesting
import Testing

/// `latchkey pin change`, killed at each of its effects.
@Suite(.softwareTPM, .requires(program: "swtpm"), .timeLimit(.minutes(15)))
struct PINKillTests {
    private let digest = String(repeating: "5a", count: 32)

    /// A machine with two keys, a revocable one, and two vaults, one of them gated. The hardware holds a part of it, so each
    /// life has one of its own.
    private func machine() async throws -> (machine: Machine, more: [String]) {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        for options in [[], [], ["--revocable"]] {
            let created = try await machine.run(["key", "create", "--policy", "pin"] + options, pins: ["2580"])
            try #require(created.status == 0, "\(created)")
        }
        try await machine.require("vault", "store", "gated", "--biometrics", pins: ["2580"], input: "s3cret")
        try await machine.require("vault", "store", "plain", input: "bystander")
        return (machine, [])
    }

    /// The PINs with which each key signs and the gated vault opens, of these two.
    private func pins(_ machine: Machine, _ life: KillPoints.Life) async throws -> Set<String> {
        let listed = try await machine.require("key", "list", "--json").json()["keys"]?.array ?? []
        var found: Set<String> = []
        for id in listed.compactMap({ $0["id"]?.string }) {
            let pin = try await first(["2580", "1357"], on: machine) { pin in
                try await machine.run(["key", "sign", id, "--digest", digest], pins: [pin]).status == 0
            }
            found.insert(try #require(pin, "\(life): the key \(id) has neither PIN"))
        }
        let pin = try await first(["2580", "1357"], on: machine) { pin in
            try await machine.run("vault", "show", "gated", pins: [pin]).output == "s3cret"
        }
        found.insert(try #require(pin, "\(life): the vault has neither PIN"))
        return found
    }

    /// The TPM counts wrong PINs; a right one does not take them back, and a lockout is no loss.
    private func first(
        _ pins: [String], on machine: Machine, _ isRight: (String) async throws -> Bool
    ) async throws -> String? {
        for pin in pins {
            if try await isRight(pin) { return pin }
            try await program(
                "tpm2_dictionarylockout", ["-c", "-p", try #require(SoftwareTPM.current.lockoutPassword)],
                environment: ["TPM2TOOLS_TCTI": machine.tcti])
        }
        return nil
    }

    @Test func `everything has one of the two PINs, and the same change is carried to its end`() async throws {
        let base = try Machine(tcti: SoftwareTPM.current.tcti)
        try await base.cutShort(
            .pinChange, by: "pin", "change", pins: ["2580", "1357"], prepare: machine,
            check: { machine, life in
                let pins = try await pins(machine, life)
                #expect(pins == ["1357"] || life.killedBefore != nil, "\(life): \(pins)")
                #expect(try await machine.run("vault", "show", "plain").output == "bystander", "\(life)")
                if pins != ["1357"] { try await machine.require("pin", "change", pins: ["2580", "1357"]) }
                try await machine.require("pin", "change", pins: ["1357", "8642"])
                #expect(try await machine.run("vault", "show", "gated", pins: ["8642"]).output == "s3cret", "\(life)")
                // The next life has the TPM to itself.
                try await machine.require("vault", "reset", "gated")
                for key in try await machine.require("key", "list", "--json").json()["keys"]?.array ?? [] {
                    try await machine.require("key", "delete", key["id"]?.string ?? "")
                }
                #expect(try await machine.revocableCount() == 0, "\(life): the hardware keeps nothing")
            })
    }
}

extension Machine {
    /// The TPM, as `LATCHKEY_TCTI` names it.
    var tcti: String { environment["LATCHKEY_TCTI"] ?? "" }
}
