import Foundation
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// A store that is emptied, replaced or restored while the agent runs.
@Suite(
    .softwareTPM, .requires(program: "swtpm"), .requires(program: "ssh-keygen"),
    .timeLimit(.minutes(15)))
struct SSHStoreTests {
    private func machine() throws -> Machine { try Machine(tcti: SoftwareTPM.current.tcti) }

    @Test func `the agent uses a store that was emptied or restored, without a restart`()
        async throws
    {
        try await SSHAgent.withRunning(machine()) { agent in
            let machine = agent.machine
            func listed() async throws -> String {
                try await agent.client("ssh-add", ["-L"]).output
            }
            func isSigned(_ key: String) async throws -> Bool {
                try await agent.client(
                    "ssh-keygen", ["-Y", "sign", "-n", "file", "-f", key], input: "x"
                ).status == 0
            }
            let work = try await agent.createKey("work")
            let line = try String(contentsOfFile: work, encoding: .utf8)
            #expect(try await listed() == line)
            #expect(try await isSigned(work))
            let reset = try await machine.run("store", "reset", "--yes", "--json")
            let archive = try #require(reset.json()["archive"]?.string, "\(reset.errors)")
            #expect(try await agent.client("ssh-add", ["-L"]).status == 1, "no identities")
            let new = try await agent.createKey("new")
            #expect(try await listed() == String(contentsOfFile: new, encoding: .utf8))

            // The steps of the article about recovery, with a request between them.
            for suffix in ["", "-wal", "-shm"] {
                try? FileManager.default.removeItem(atPath: machine.databasePath + suffix)
            }
            #expect(try await agent.client("ssh-add", ["-L"]).status == 1)
            #expect(
                !FileManager.default.fileExists(atPath: machine.databasePath),
                "a new store would be mixed with the restored one")
            try FileManager.default.moveItem(atPath: archive, toPath: machine.databasePath)
            #expect(try await listed() == line)
            #expect(try await isSigned(work))
            #expect(try await !isSigned(new))
        }
    }

    @Test func `doctor reports an agent that does not offer the stored keys`() async throws {
        var machine = try machine()
        machine.environment["XDG_RUNTIME_DIR"] = machine.directory.path
        try #require(
            try await machine.run("key", "create", "--ssh", pins: [SSHAgent.pin]).status == 0)
        var other = machine
        other.environment["LATCHKEY_CONTAINER"] = "other"
        let folder = machine.directory.path(of: "latchkey")
        try FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: false,
            attributes: [.posixPermissions: 0o700])
        try await SSHAgent.withRunning(other) { agent in
            try FileManager.default.createSymbolicLink(
                atPath: "\(folder)/ssh-agent.sock", withDestinationPath: agent.socket)
            let report = try await machine.run("doctor", "--json").json()
            let check = report["checks"]?.array?.first { $0["name"] == "ssh-agent" }
            #expect(check?["state"] == "warning")
            #expect(
                check?["finding"]?.string?.contains("does not offer the SSH key") == true,
                "\(String(describing: check))")
            #expect(check?["advice"]?.string?.contains("the same store and container") == true)
        }
    }
}
