import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// `latchkey pin change`, killed at each of its kill points.
@Suite(.softwareTPM, .requires(program: "swtpm"), .timeLimit(.minutes(15)))
struct PINKillTests {
    private let digest = String(repeating: "5a", count: 32)

    /// A machine with two keys, one revocable, and two vaults, one with biometrics. Part of its
    /// state is in the TPM, so each run needs its own TPM.
    private func machine() async throws -> (machine: Machine, more: [String]) {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        for options in [[], [], ["--revocable"]] {
            let created = try await machine.run(
                ["key", "create", "--policy", "pin"] + options, pins: ["2580"])
            try #require(created.status == 0, "\(created)")
        }
        try await machine.require(
            "vault", "store", "gated", "--biometrics", pins: ["2580"], input: "s3cret")
        try await machine.require("vault", "store", "plain", input: "bystander")
        return (machine, [])
    }

    /// Which of the two PINs each key and the vault with biometrics accept.
    private func pins(_ machine: Machine, _ life: KillPoints.Run) async throws -> Set<String> {
        let listed = try await machine.require("key", "list", "--json").json()["keys"]?.array ?? []
        var found: Set<String> = []
        for id in listed.compactMap({ $0["id"]?.string }) {
            let pin = try await first(["2580", "1357"], on: machine) { pin in
                try await machine.run(["key", "sign", id, "--digest", digest], pins: [pin]).status
                    == 0
            }
            found.insert(try #require(pin, "\(life): the key \(id) has neither PIN"))
        }
        let pin = try await first(["2580", "1357"], on: machine) { pin in
            try await machine.run("vault", "show", "gated", pins: [pin]).output == "s3cret"
        }
        found.insert(try #require(pin, "\(life): the vault has neither PIN"))
        return found
    }

    /// The first right PIN. Resets the TPM's counter after each wrong PIN, because a right PIN does
    /// not reset it.
    private func first(
        _ pins: [String], on machine: Machine, _ isRight: (String) async throws -> Bool
    ) async throws -> String? {
        for pin in pins {
            if try await isRight(pin) { return pin }
            try await program(
                "tpm2_dictionarylockout",
                ["-c", "-p", try #require(SoftwareTPM.current.lockoutPassword)],
                environment: ["TPM2TOOLS_TCTI": machine.tcti])
        }
        return nil
    }

    @Test func `everything has one of the two PINs, and repeating the change completes it`()
        async throws
    {
        let base = try Machine(tcti: SoftwareTPM.current.tcti)
        try await base.cutShort(
            .pinChange, by: "pin", "change", pins: ["2580", "1357"], prepare: machine,
            check: { machine, life in
                let pins = try await pins(machine, life)
                #expect(pins == ["1357"] || life.killedBefore != nil, "\(life): \(pins)")
                #expect(
                    try await machine.run("vault", "show", "plain").output == "bystander", "\(life)"
                )
                if pins != ["1357"] {
                    try await machine.require("pin", "change", pins: ["2580", "1357"])
                }
                try await machine.require("pin", "change", pins: ["1357", "8642"])
                #expect(
                    try await machine.run("vault", "show", "gated", pins: ["8642"]).output
                        == "s3cret", "\(life)")
                // The next run uses the TPM alone.
                try await machine.require("vault", "reset", "gated", "--yes")
                for key in try await machine.require("key", "list", "--json").json()["keys"]?.array
                    ?? []
                {
                    try await machine.require("key", "delete", key["id"]?.string ?? "", "--yes")
                }
                #expect(
                    try await machine.revocableCount() == 0, "\(life): the hardware keeps nothing")
            })
    }
}

extension Machine {
    /// The TPM, as `LATCHKEY_TCTI` names it.
    var tcti: String { environment["LATCHKEY_TCTI"] ?? "" }
}
