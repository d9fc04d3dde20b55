import FoundationEssentials
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@Suite(.requires(program: "tpm2_getcap")) struct `The swtpm scripts` {
    @Test func `start a TPM once, print its TCTI, and stop it`() async throws {
        try await withState { state in
            let tcti = try await script("start", "--state", state)
            #expect(tcti == "swtpm:path=\(state)/sock")
            #expect(
                try await script("start", "--state", state) == tcti, "a running TPM keeps running")
            #expect(
                try await script("start", "--state", state, "--export")
                    == "export LATCHKEY_TCTI=\(tcti)")
            #expect(
                try await capability("properties-fixed", tcti).contains("TPM2_PT_FAMILY_INDICATOR"))

            _ = try await script("stop", "--state", state)
            #expect(!FileManager.default.fileExists(atPath: "\(state)/sock"))
            #expect(
                FileManager.default.fileExists(atPath: "\(state)/tpm2-00.permall"),
                "the state stays")
            _ = try await script("stop", "--state", state)
            _ = try await script("stop", "--state", state, "--remove")
            #expect(!FileManager.default.fileExists(atPath: state))
        }
    }

    @Test func `start one TPM when many processes start it`() async throws {
        try await withState { state in
            let answers = try await withThrowingTaskGroup { group in
                for _ in 0..<4 { group.addTask { try await script("start", "--state", state) } }
                return try await group.reduce(into: Set<String>()) { $0.insert($1) }
            }
            #expect(answers == ["swtpm:path=\(state)/sock"])
            #expect(try await capability("handles-persistent", answers.first ?? "") == "")
        }
    }

    @Test(.requires(program: "swtpm_setup")) func `provision endorsement certificates`()
        async throws
    {
        try await withState { state in
            let root = try await script("provision", "--state", state)
            #expect(try String(contentsOfFile: root, encoding: .utf8).contains("BEGIN CERTIFICATE"))
            let tcti = try await script("start", "--state", state)
            #expect(try await capability("handles-nv-index", tcti).contains("0x1C00016"))
            #expect(
                try await script("provision", "--state", state) == root,
                "a provisioned TPM is unchanged")
        }
    }

    @Test func `reject invalid arguments with exit code 2`() async throws {
        for arguments in [
            ["start", "--port", "65535"], ["start", "--nonsense"], ["stop", "everything"],
        ] {
            let result = try await runScript(arguments)
            #expect(result.status == 2, "\(arguments)")
            #expect(result.output == "")
        }
    }

    /// Runs a closure with a path for a TPM's state, then stops the TPM.
    private func withState(_ body: (String) async throws -> Void) async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let state = directory.path(of: "tpm")
            do {
                try await body(state)
            } catch {
                _ = try? await runScript(["stop", "--state", state])
                throw error
            }
            _ = try await script("stop", "--state", state)
        }
    }

    private func script(_ arguments: String...) async throws -> String {
        let outcome = try await runScript(arguments)
        #expect(outcome.isSuccess, "\(arguments)")
        return trimmed(outcome.output)
    }

    private func runScript(_ arguments: [String]) async throws -> SystemProgram.Outcome {
        let path = BuiltProduct.packageFolder.appending(path: "swtpm/\(arguments[0])").path
        return try await SystemProgram("bash").result(of: [path] + arguments.dropFirst())
    }

    private func capability(_ name: String, _ tcti: String) async throws -> String {
        let outcome = try await SystemProgram("tpm2_getcap").result(of: ["-T", tcti, name])
        #expect(outcome.isSuccess)
        return trimmed(outcome.output)
    }

    private func trimmed(_ text: String) -> String {
        text.split(separator: "\n").joined(separator: "\n")
    }
}
