import LatchkeySimulators
import LatchkeyTesting
import Testing

/// `latchkey pin change`, killed at each of its effects.
@Suite(.softwareTPM, .requires(program: "swtpm"), .timeLimit(.minutes(30)))
struct PINKillTests {
    @Test func `everything has the new PIN, or everything has the old one`() async throws {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        var keys: [String] = []
        for label in ["one", "two"] {
            let created = try await machine.require(
                "key", "create", "--policy", "pin", "--label", label, "--json", pins: ["2580"])
            keys.append(try #require(created.json()["id"]?.string))
        }
        try await machine.require("vault", "store", "gated", "--biometrics", pins: ["2580"], input: "s3cret")
        try await machine.require("vault", "store", "plain", input: "bystander")
        let digest = String(repeating: "5a", count: 32)
        try await machine.cutShort(.pinChange, by: "pin", "change", pins: ["2580", "1357"]) { machine, life in
            let shown = try await machine.run("vault", "show", "gated", pins: ["1357"])
            let isChanged = shown.output == "s3cret"
            #expect(isChanged || shown.status == 4 && life.killedBefore != nil, "\(life): \(shown)")
            let (pin, next) = isChanged ? ("1357", "8642") : ("2580", "1357")
            for key in keys {
                let signed = try await machine.run("key", "sign", key, "--digest", digest, pins: [pin])
                #expect(signed.status == 0, "\(life): \(signed.errors)")
            }
            #expect(try await machine.run("vault", "show", "plain").output == "bystander", "\(life)")
            // The TPM counts the wrong PIN of above; a right one does not take it back, and a lockout is no loss.
            try await program("tpm2_dictionarylockout", ["-c"], environment: ["TPM2TOOLS_TCTI": machine.tcti])
            try await machine.require("pin", "change", pins: [pin, next])
            #expect(try await machine.run("vault", "show", "gated", pins: [next]).output == "s3cret", "\(life)")
        }
    }
}

extension Machine {
    /// The TPM, as `LATCHKEY_TCTI` names it.
    var tcti: String { environment["LATCHKEY_TCTI"] ?? "" }
}
