import FoundationEssentials
import Glibc
import LatchkeySimulators
import LatchkeyTesting
import SystemPackage
import Testing

/// The tool on tokens whose files this user cannot write.
@Suite(
    .enabled(if: geteuid() == 0, "needs root, to give up the right to write each file"),
    .requires(program: "setpriv"), .timeLimit(.minutes(15)))
struct ReadOnlyTokenTests {
    /// Runs the tool without the capabilities that ignore the modes of files.
    private func run(_ machine: Machine, _ arguments: [String], pins: [String]? = ["123456"])
        async throws -> Outcome
    {
        try await machine.run(
            ["--bounding-set", "-dac_override,-dac_read_search", Products.latchkey.string]
                + arguments, pins: pins, program: "/usr/bin/setpriv")
    }

    private func expectObstacle(_ machine: Machine, _ path: String, to commands: [[String]])
        async throws
    {
        for command in commands {
            let outcome = try await run(machine, command + ["--json"], pins: ["123456", "654321"])
            #expect(outcome.status == 7, "\(command): \(outcome)")
            let error = try outcome.json()["error"]
            let words = "the token's files cannot be written: \(path)"
            #expect(error?["message"]?.string?.contains(words) == true, "\(command): \(outcome)")
            #expect(error?["recovery"]?.string?.contains("chmod") == true, "\(outcome)")
        }
        let doctor = try await run(machine, ["doctor"])
        #expect(doctor.status == 7, "\(doctor)")
        #expect(doctor.output.contains("cannot be written: \(path)"), "\(doctor)")
    }

    private func expectSuccess(_ machine: Machine, _ commands: [[String]]) async throws {
        for command in commands {
            let outcome = try await run(machine, command)
            #expect(outcome.status == 0, "\(command): \(outcome)")
        }
    }

    private func key(_ machine: Machine, _ options: String...) async throws -> String {
        let made = try await run(machine, ["key", "create", "--json"] + options)
        return try #require(made.json()["id"]?.string, "\(made)")
    }

    private func change(_ mode: String, _ paths: String...) async throws {
        try await program("chmod", ["-R", mode] + paths)
    }

    @Test(.requires(program: "softhsm2-util"))
    func `SoftHSM2's files are read, and the error for a change names the file`() async throws {
        let (machine, token) = try await Machine.withToken()
        let (open, reused) = (
            try await key(machine, "--policy", "none"), try await key(machine, "--reuse", "30")
        )
        let each = try await key(machine)
        let configuration = try #require(token.environment["SOFTHSM2_CONF"])
        let tokens = URL(filePath: configuration).deletingLastPathComponent().path() + "tokens"
        try await change("a-w", tokens)
        try await expectSuccess(
            machine,
            [
                ["token", "list"], ["token", "keys"], ["key", "list"], ["pin", "status"],
                ["key", "sign", open, "/dev/null"], ["key", "sign", reused, "/dev/null"],
            ])
        // SoftHSM2 fails at the second login, which a key with a PIN for each use needs.
        try await expectObstacle(
            machine, tokens,
            to: [
                ["key", "sign", each, "/dev/null"], ["key", "create"],
                ["key", "delete", each, "--yes"],
                ["token", "pin"],
            ])
        try await change("u+w", tokens)
        try await expectSuccess(machine, [["key", "sign", each, "/dev/null"], ["doctor"]])
        withExtendedLifetime(token) {}
    }

    @Test(
        .requires(program: "swtpm"), .requires(program: "tpm2-abrmd"),
        .requires(program: "pkcs11-tool"))
    func `tpm2-pkcs11's files are read, and the error for a change names one`() async throws {
        try await SoftwareTPMToken.withToken { token in
            var machine = try Machine(tcti: "device:/nonexistent/tpm")
            machine.environment.merge(token.environment) { $1 }
            machine.environment["LATCHKEY_TOKEN"] = token.uri
            let key = try await key(machine)
            let sign = ["key", "sign", key, "/dev/null"]
            let folder = try #require(token.environment["TPM2_PKCS11_STORE"])
            let database = "\(folder)/tpm2_pkcs11.sqlite3"
            try await change("a-w", database)
            try await expectSuccess(machine, [["token", "list"], ["token", "keys"], sign])
            let changes = [["key", "create"], ["token", "pin"]]
            try await expectObstacle(machine, database, to: changes)
            try await change("u+w", database)
            // In a folder that it cannot write, the module does not start.
            try await program("chmod", ["a-w", folder])
            try await expectObstacle(machine, folder, to: [sign, ["key", "create"]])
            try await program("chmod", ["u+w", folder])
            try await expectSuccess(machine, [sign])
        }
    }
}
