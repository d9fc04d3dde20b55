import Dispatch
import FoundationEssentials
import Glibc
import LatchkeySimulators
import LatchkeyTesting
import Subprocess
import Testing

/// The number of TPM commands per operation, and that nothing stays loaded in the TPM.
@Suite(
    .softwareTPM, .requires(program: "swtpm"), .requires(program: "tpm2_getcap"),
    .timeLimit(.minutes(15)))
struct TrafficTests {
    private static let pin = "Kx7#unusual-PIN"

    private func machine() throws -> Machine { try Machine(tcti: SoftwareTPM.current.tcti) }

    private func createKey(_ machine: Machine, policy: String = "pin") async throws -> String {
        let outcome = try await machine.run(
            "key", "create", "--policy", policy, "--json", pins: [Self.pin])
        return try #require(outcome.json()["id"]?.string)
    }

    @Test func `creating takes 3 commands and signing with a PIN 5, and the PIN is in neither`()
        async throws
    {
        let machine = try machine()
        // The first key also creates the storage root key.
        let id = try await createKey(machine)
        let (created, creation) = try await TPMTraffic.recording(
            machine, ["key", "create"], pins: [Self.pin])
        #expect(created.status == 0)
        #expect(creation.commands.contains(TPMTraffic.create))
        #expect(creation.commands.count <= 3, "\(creation.commands.map { String($0, radix: 16) })")
        // swtpm answers its first use of a PIN after a start with TPM_RC_RETRY, which costs one
        // command, once.
        #expect(try await machine.run("key", "sign", id, "/dev/null", pins: [Self.pin]).status == 0)
        let (signed, signing) = try await TPMTraffic.recording(
            machine, ["key", "sign", id, "/dev/null"], pins: [Self.pin])
        #expect(signed.status == 0)
        #expect(signing.commands.contains(TPMTraffic.sign))
        #expect(signing.commands.count <= 5, "\(signing.commands.map { String($0, radix: 16) })")
        #expect(!creation.contains(Array(Self.pin.utf8)))
        #expect(!signing.contains(Array(Self.pin.utf8)))
    }

    @Test func `opening a vault takes 4 commands, and 5 more with a PIN`() async throws {
        let machine = try machine()
        #expect(try await machine.run("vault", "store", "plain", input: "x").status == 0)
        #expect(
            try await machine.run(
                "vault", "store", "gated", "--biometrics", pins: [Self.pin], input: "y"
            ).status == 0)
        let (shown, plain) = try await TPMTraffic.recording(machine, ["vault", "show", "plain"])
        #expect(shown.output == "x")
        #expect(plain.commands.count <= 4, "\(plain.commands.map { String($0, radix: 16) })")
        #expect(try await machine.run("vault", "unlock", "gated", pins: [Self.pin]).status == 0)
        let (opened, gated) = try await TPMTraffic.recording(
            machine, ["vault", "show", "gated"], pins: [Self.pin])
        #expect(opened.output == "y")
        #expect(gated.commands.count <= 9, "\(gated.commands.map { String($0, radix: 16) })")
        #expect(!gated.contains(Array(Self.pin.utf8)))
    }

    @Test func `commands that only read the store send no TPM command`() async throws {
        let machine = try machine()
        let id = try await createKey(machine)
        for arguments in [
            ["status"], ["key", "list"], ["key", "show", id],
            ["key", "export", id, "--format", "tss2"],
            ["key", "export", id, "--format", "pem"], ["key", "delete", id, "--yes"],
            ["credential", "list"],
            ["credential", "list", "--where", "a=1"], ["credential", "default"],
            ["vault", "status", "x"],
            ["vault", "reset", "x", "--yes"],
        ] {
            let (outcome, traffic) = try await TPMTraffic.recording(machine, arguments)
            #expect(outcome.status == (arguments[0] == "vault" ? 6 : 0))
            #expect(traffic.commands.isEmpty)
        }
    }

    @Test func `nothing stays loaded after success, a wrong PIN, a missing PIN, and kill`()
        async throws
    {
        let machine = try machine()
        let tcti = try SoftwareTPM.current.tcti
        let id = try await createKey(machine)
        let unlocked = try await createKey(machine, policy: "none")
        #expect(try await loadedHandles(tcti) == "")
        for (arguments, pins, status) in [
            (["key", "sign", id, "/dev/null"], [Self.pin], 0),
            (["key", "sign", id, "/dev/null"], ["0000"], 4),
            (["key", "sign", id, "/dev/null"], [], 7),
            (["key", "sign", unlocked, "/dev/null"], [], 0),
            (["key", "attest", id, "--challenge", "MDEyMzQ1Njc4OWFiY2RlZg"], [], 0),
            (["pin", "change"], [Self.pin, "0123456789"], 0), (["doctor"], [], 0),
        ] as [([String], [String], Int32)] {
            let outcome = try await machine.run(arguments, pins: pins)
            #expect(outcome.status == status, "\(arguments): \(outcome.errors)")
            #expect(try await loadedHandles(tcti) == "", "\(arguments)")
        }
        try await killAtThePrompt(machine, id)
        #expect(try await loadedHandles(tcti) == "")
    }

    /// Starts a signature whose PIN never comes, and kills the process while it waits for it.
    private func killAtThePrompt(_ machine: Machine, _ id: String) async throws {
        let path = machine.directory.path(of: "fifo")
        try #require(mkfifo(path, 0o600) == 0)
        var environment = machine.environment
        environment["LATCHKEY_PIN_SOURCE"] = "file:\(path)"
        _ = try await Subprocess.run(
            .path(Products.latchkey), arguments: ["key", "sign", id, "/dev/null"],
            environment: .custom(Machine.keys(environment)), input: .none, output: .discarded,
            error: .discarded
        ) { execution in
            // Opening this end returns when the tool has opened its end for the prompt.
            let writer: Int32 = await withCheckedContinuation { continuation in
                DispatchQueue(label: "test.fifo").async {
                    continuation.resume(returning: open(path, O_WRONLY))
                }
            }
            #expect(writer >= 0)
            kill(execution.processIdentifier.value, SIGKILL)
            close(writer)
        }
    }
}
