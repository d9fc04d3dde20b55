import Foundation
import LatchkeySimulators
import LatchkeyTesting
import Testing

/// `latchkey ssh install`, checked with ssh itself.
@Suite(.requires(program: "ssh"), .timeLimit(.minutes(15)))
struct SSHInstallTests {
    private func write(_ text: String, _ path: String) throws {
        try Data(text.utf8).write(to: URL(filePath: path))
    }

    @Test func `ssh uses the agent after --write, and the earlier configuration stays`()
        async throws
    {
        let machine = try Machine(tcti: nil)
        let folder = machine.directory.path(of: ".ssh")
        let target = machine.directory.path(of: "dotfiles-config")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
        try write("User ada\nHost other\n    User bob\n", target)
        #expect(chmod(target, 0o640) == 0)
        // Users keep the file elsewhere, with a symbolic link.
        try FileManager.default.createSymbolicLink(
            atPath: "\(folder)/config", withDestinationPath: target)

        let shown = try await machine.run("ssh", "install")
        #expect(shown.output.contains("IdentityAgent /run/user/%i/latchkey/ssh-agent.sock"))
        #expect(try String(contentsOfFile: target, encoding: .utf8).hasPrefix("User ada"))

        for _ in 0..<2 {
            let outcome = try await machine.run("ssh", "install", "--write", "--json")
            #expect(try outcome.json()["isConfigured"] == true, "\(outcome.errors)")
        }
        let text = try String(contentsOfFile: target, encoding: .utf8)
        #expect(text.components(separatedBy: "IdentityAgent").count == 2)
        #expect(
            try FileManager.default.attributesOfItem(atPath: target)[.posixPermissions] as? Int
                == 0o640)
        for (host, user) in [("git.example.org", "ada"), ("other", "ada")] {
            let settings = try await program(
                "ssh", ["-G", "-F", target, host], environment: ["HOME": folder])
            #expect(
                settings.contains("\nidentityagent /run/user/%i/latchkey/ssh-agent.sock\n")
                    || settings.contains(
                        "\nidentityagent /run/user/\(getuid())/latchkey/ssh-agent.sock\n"),
                "\(settings)")
            #expect(settings.contains("user \(user)\n"))
        }
    }

    @Test(arguments: ["/tmp/a b", "/tmp/100%", "/tmp/a\nProxyCommand x", "/tmp/${X}", "/tmp/'"])
    func `a runtime directory that ssh cannot read is refused`(directory: String) async throws {
        var machine = try Machine(tcti: nil)
        machine.environment["XDG_RUNTIME_DIR"] = directory
        let outcome = try await machine.run("ssh", "install", "--write", "--json")
        #expect(outcome.status == 2)
        #expect(try outcome.json()["error"]?["code"] == "invalidInput")
        #expect(!FileManager.default.fileExists(atPath: machine.directory.path(of: ".ssh/config")))
        machine.environment["XDG_RUNTIME_DIR"] = "/tmp/run-1"
        let shown = try await machine.run("ssh", "install")
        #expect(shown.output.contains("IdentityAgent /tmp/run-1/latchkey/ssh-agent.sock"))
        #expect(shown.output.contains("export SSH_AUTH_SOCK=/tmp/run-1/latchkey/ssh-agent.sock"))
    }

    @Test(.softwareTPM, .requires(program: "swtpm"))
    func `doctor reports whether the agent answers, once there is an SSH key`() async throws {
        var machine = try Machine(tcti: SoftwareTPM.current.tcti)
        machine.environment["XDG_RUNTIME_DIR"] = machine.directory.path
        func check() async throws -> JSON? {
            let report = try await machine.run("doctor", "--json").json()
            guard case .array(let checks)? = report["checks"] else { return nil }
            return checks.first { $0["name"] == "ssh-agent" }
        }
        #expect(try await check() == nil)
        #expect(try await machine.run("key", "create", "--ssh", pins: [SSHAgent.pin]).status == 0)
        #expect(try await check()?["state"] == "warning")
        try await SSHAgent.withRunning(machine) { agent in
            try FileManager.default.createDirectory(
                atPath: machine.directory.path(of: "latchkey"), withIntermediateDirectories: false)
            try FileManager.default.createSymbolicLink(
                atPath: machine.directory.path(of: "latchkey/ssh-agent.sock"),
                withDestinationPath: agent.socket)
            #expect(try await check()?["state"] == "ok")
        }
    }
}
