import FoundationEssentials
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@Suite struct `A software TPM` {
    @Test(.softwareTPM, .requires(program: "tpm2_getcap"))
    func `answers tpm2-tools on its TCTI`() async throws {
        let properties = try await tool("tpm2_getcap", "properties-fixed", on: SoftwareTPM.current)
        #expect(properties.contains("TPM2_PT_FAMILY_INDICATOR"))
    }

    @Test(.requires(program: "tpm2_evictcontrol"))
    func `keeps its persistent objects after a restart`() async throws {
        try await SoftwareTPM.withRunning { tpm in
            let first = await tpm.processIdentifier
            try await makePersistentKey(on: tpm)
            await tpm.stop()
            #expect(await tpm.isRunning == false)
            try await tpm.start()
            #expect(await tpm.processIdentifier != first)
            #expect(
                try await tool("tpm2_getcap", "handles-persistent", on: tpm).contains("0x81000001"))
        }
    }

    @Test(.requires(program: "tpm2_evictcontrol"))
    func `keeps its persistent objects after a power cut`() async throws {
        try await SoftwareTPM.withRunning { tpm in
            try await makePersistentKey(on: tpm)
            await tpm.cutPower()
            try await tpm.start()
            #expect(
                try await tool("tpm2_getcap", "handles-persistent", on: tpm).contains("0x81000001"))
        }
    }

    /// A child with the signal mask of a concurrency thread would not get SIGTERM.
    @Test func `does not block signals`() async throws {
        try await SoftwareTPM.withRunning { tpm in
            let pid = try #require(await tpm.processIdentifier)
            let status = try String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8)
            let blocked = try #require(
                status.split(separator: "\n").first { $0.hasPrefix("SigBlk:") })
            #expect(
                blocked.dropFirst("SigBlk:".count).allSatisfy { $0.isWhitespace || $0 == "0" },
                "\(blocked)")
            await tpm.stop()
            #expect(await tpm.isRunning == false)
        }
    }

    @Test func `leaves no process or directory`() async throws {
        let (path, pid) = try await SoftwareTPM.withRunning { tpm in
            #expect(FileManager.default.fileExists(atPath: tpm.stateDirectory))
            return (tpm.stateDirectory, try #require(await tpm.processIdentifier))
        }
        #expect(!FileManager.default.fileExists(atPath: path))
        #expect(!FileManager.default.fileExists(atPath: "/proc/\(pid)/exe"))
    }

    @Test func `ends when the closure throws`() async throws {
        struct Failure: Error {}
        var path: String?
        await #expect(throws: Failure.self) {
            try await SoftwareTPM.withRunning { tpm in
                path = tpm.stateDirectory
                throw Failure()
            }
        }
        #expect(!FileManager.default.fileExists(atPath: try #require(path)))
    }

    @Test func `keeps its state from other users`() async throws {
        try await SoftwareTPM.withRunning { tpm in
            let attributes = try FileManager.default.attributesOfItem(atPath: tpm.stateDirectory)
            #expect(attributes[.posixPermissions] as? Int == 0o700)
        }
    }

    @Test(
        .softwareTPM(.endorsementCertificate), .requires(program: "swtpm_setup"),
        .requires(program: "tpm2_nvread"),
        .requires(program: "openssl"))
    func `has an endorsement certificate of its own authority`() async throws {
        let tpm = try SoftwareTPM.current
        #expect(try await tool("tpm2_getcap", "handles-nv-index", on: tpm).contains("0x1C00016"))
        try await TemporaryDirectory.withDirectory { directory in
            let certificate = directory.path(of: "ek.der")
            _ = try await tool("tpm2_nvread", "0x1C00016", "-o", certificate, on: tpm)
            let issuer = "\(tpm.stateDirectory)/ca/issuercert.pem"
            let verdict = try await output(
                "openssl", "verify", "-CAfile", tpm.rootCertificatePath, "-untrusted", issuer,
                certificate)
            #expect(verdict.contains("ek.der: OK"))
        }
    }

    private func makePersistentKey(on tpm: SoftwareTPM) async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let context = directory.path(of: "primary.ctx")
            _ = try await tool("tpm2_createprimary", "-G", "ecc256", "-c", context, on: tpm)
            _ = try await tool("tpm2_evictcontrol", "-c", context, "0x81000001", on: tpm)
        }
    }

    private func tool(_ name: String, _ arguments: String..., on tpm: SoftwareTPM) async throws
        -> String
    {
        try await output(name, ["-T", tpm.tcti] + arguments)
    }

    private func output(_ program: String, _ arguments: String...) async throws -> String {
        try await output(program, arguments)
    }

    private func output(_ program: String, _ arguments: [String]) async throws -> String {
        let outcome = try await SystemProgram(program).result(of: arguments)
        #expect(outcome.isSuccess, "\(program): \(outcome.errors)")
        return outcome.output
    }
}
