import LatchkeySimulators
import LatchkeyTesting
import SystemPackage
import Testing

/// PINs of four digits on a TPM with an empty lockout password, as most TPMs have from the factory.
@Suite(.requires(program: "swtpm"), .requires(program: "tpm2_changeauth"), .timeLimit(.minutes(15)))
struct ShortPINCommandTests {
    @Test
    func `a short PIN requires --allow-short-pin, or the lockout password of doctor's advice`()
        async throws
    {
        let tpm = try await SoftwareTPM(hasLockoutPassword: false)
        let machine = try Machine(tcti: tpm.tcti)
        let commands = [
            ["key", "create"], ["key", "create", "--revocable"],
            ["vault", "store", "v", "--biometrics", "--policy", "pin"],
        ]
        for command in commands {
            let outcome = try await machine.run(
                command + ["--json"], pins: ["2580"], input: "secret")
            #expect(outcome.status == 2, "\(outcome.output)")
            let error = try #require(outcome.json()["error"])
            #expect(error["code"] == "invalidInput")
            #expect(error["message"]?.string?.contains("fewer than 6 characters") == true)
            #expect(error["recovery"]?.string?.contains("--allow-short-pin") == true)
        }
        let id = try #require(
            try await machine.run("key", "create", "--allow-short-pin", "--json", pins: ["2580"])
                .json()["id"]?.string)
        #expect(try await machine.run("key", "sign", id, "/dev/null", pins: ["2580"]).status == 0)
        #expect(try await machine.run("pin", "change", pins: ["2580", "1357"]).status == 2)
        #expect(
            try await machine.run("pin", "change", "--allow-short-pin", pins: ["2580", "1357"])
                .status == 0)

        let before = try await lockout(machine)
        #expect(before["state"] == "warning")
        #expect(before["finding"]?.string?.contains("lockout password is empty") == true)
        // The command names the TPM, or it would change the machine's.
        let command = try #require(before["advice"]?.string?.split(separator: "sudo ").last)
        let set = try await machine.run(
            ["-c", "/usr/bin/\(command)"], input: "a lockout password\n",
            program: FilePath("/bin/sh"))
        #expect(set.status == 0, "\(set.errors)")
        #expect(try await lockout(machine)["state"] == "ok")
        #expect(try await machine.run("key", "create", pins: ["2580"]).status == 0)
        await tpm.cutPower()
    }

    private func lockout(_ machine: Machine) async throws -> JSON {
        let checks = try await machine.run("doctor", "--json").json()["checks"]?.array
        return try #require(checks?.first { $0["name"] == "lockout-password" })
    }
}
