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

    /// The agent that ssh uses for a host.
    private func agent(of host: String, _ file: String) async throws -> String? {
        try await program("ssh", ["-G", "-F", file, host]).split(separator: "\n")
            .first { $0.hasPrefix("identityagent ") }.map { String($0.dropFirst(14)) }
    }

    private func configuration(_ machine: Machine, _ bytes: [UInt8]) throws -> String {
        let folder = machine.directory.path(of: ".ssh")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try Data(bytes).write(to: URL(filePath: "\(folder)/config"))
        return "\(folder)/config"
    }

    @Test func `hosts with an agent of their own keep it`() async throws {
        let machine = try Machine(tcti: nil)
        let file = try configuration(
            machine, Array("Host a\n  IdentityAgent none\nHost b\n  identityagent=/b\n".utf8))
        let written = try await machine.run("ssh", "install", "--write")
        #expect(written.status == 0, "\(written.errors)")
        #expect(written.output.contains("Host a: IdentityAgent none"), "\(written.output)")
        #expect(try await agent(of: "a", file) == "none")
        #expect(try await agent(of: "b", file) == "/b")
        let other = try #require(try await agent(of: "c", file))
        #expect(other.hasSuffix("/latchkey/ssh-agent.sock"))
    }

    @Test func `a second --write moves the lines for all hosts to the end`() async throws {
        let machine = try Machine(tcti: nil)
        let file = try configuration(machine, Array("Host b\n    User ada\n".utf8))
        #expect(try await machine.run("ssh", "install", "--write").status == 0)
        let first = try String(contentsOfFile: file, encoding: .utf8)
        let own = "Host a\n    IdentityAgent none\n"
        try write("\(first)\n# a comment\n\(own)", file)
        #expect(try await machine.run("ssh", "install", "--json").json()["isConfigured"] == false)
        let written = try await machine.run("ssh", "install", "--write", "--json").json()
        #expect(written["isConfigured"] == true)
        #expect(try await agent(of: "a", file) == "none")
        #expect(try await agent(of: "b", file)?.hasSuffix("/latchkey/ssh-agent.sock") == true)
        // Comments, and options of the lines' own section, stay below them.
        let text = try String(contentsOfFile: file, encoding: .utf8)
        for added in ["\n # end\n", "    Compression yes\n"] {
            try write(text + added, file)
            #expect(try await machine.run("ssh", "install", "--write").status == 0)
            #expect(try String(contentsOfFile: file, encoding: .utf8) == text + added)
        }
    }

    @Test func `with --host, only these hosts use the agent`() async throws {
        let machine = try Machine(tcti: nil)
        let file = try configuration(machine, Array("Host *\n  IdentityAgent /usual\n".utf8))
        let written = try await machine.run(
            "ssh", "install", "--write", "--host", "git.example.org", "--host", "*.work.example")
        #expect(written.status == 0, "\(written.errors)")
        for host in ["git.example.org", "a.work.example"] {
            #expect(try await agent(of: host, file)?.hasSuffix("/latchkey/ssh-agent.sock") ?? false)
        }
        #expect(try await agent(of: "other.example", file) == "/usual")
        for host in ["a b", "a\nProxyCommand x", "", "\"a\"", "a#b"] {
            let refused = try await machine.run("ssh", "install", "--write", "--host", host)
            #expect(refused.status == 2 || refused.status == 64, "\(host): \(refused.output)")
        }
    }

    @Test func `the output names the hosts whose lines are replaced`() async throws {
        let machine = try Machine(tcti: nil)
        func replaced(_ hosts: String...) async throws -> String? {
            let written = try await machine.run(
                ["ssh", "install", "--write"] + hosts.flatMap { ["--host", $0] })
            #expect(written.status == 0, "\(written.errors)")
            return written.output.firstMatch(of: /has these lines(.*):\n/).map { String($0.1) }
        }
        #expect(try await replaced("a.example", "b.example") == "")
        #expect(try await replaced("a.example", "b.example") == "")
        #expect(try await replaced("c.example") == ", instead of those for a.example, b.example")
        #expect(try await replaced() == ", instead of those for c.example")
        #expect(try await replaced("x") == ", instead of those for all hosts")
    }

    @Test func `with --host, the first options of the file stay those of all hosts`() async throws {
        let machine = try Machine(tcti: nil)
        let file = try configuration(machine, Array("StrictHostKeyChecking yes\n".utf8))
        for hosts in [["git.example.org"], ["git.example.org", "*.work.example"]] {
            let written = try await machine.run(
                ["ssh", "install", "--write"] + hosts.flatMap { ["--host", $0] })
            #expect(written.status == 0, "\(written.errors)")
            for host in ["git.example.org", "other.example"] {
                let settings = try await program("ssh", ["-G", "-F", file, host])
                #expect(settings.contains("\nstricthostkeychecking true\n"), "\(settings)")
            }
        }
    }

    @Test func `--remove restores the file, whatever it contains`() async throws {
        let latin1: [UInt8] = Array("# caf".utf8) + [0xE9, 0x0A] + Array("Host a\n".utf8)
        for before in [
            latin1, Array("User ada\n".utf8), Array("User ada".utf8), [10], [10, 10, 65],
        ] {
            for options in [[], ["--host", "a"]] {
                let machine = try Machine(tcti: nil)
                let file = try configuration(machine, before)
                let steps = [options, [], ["--host", "b"], options]
                for step in steps {
                    let written = try await machine.run(["ssh", "install", "--write"] + step)
                    #expect(written.status == 0, "\(written.errors)")
                    let text = try Data(contentsOf: URL(filePath: file))
                    let own = String(decoding: text, as: UTF8.self)
                    #expect(own.ranges(of: "# latchkey-agent").count == 1)
                }
                let removed = try await machine.run("ssh", "install", "--remove")
                #expect(removed.status == 0, "\(removed.errors)")
                #expect(removed.output.contains("IdentityAgent"))
                #expect(try Array(Data(contentsOf: URL(filePath: file))) == before)
                let again = try await machine.run("ssh", "install", "--remove")
                #expect(again.output.contains("no lines of latchkey-agent"), "\(again.output)")
            }
        }
        // Without a file before, the file is removed.
        let machine = try Machine(tcti: nil)
        #expect(try await machine.run("ssh", "install", "--write").status == 0)
        #expect(try await machine.run("ssh", "install", "--remove").status == 0)
        #expect(!FileManager.default.fileExists(atPath: machine.directory.path(of: ".ssh/config")))
    }

    @Test func `without a desktop, the agent is started in a terminal of its own`() async throws {
        let machine = try Machine(tcti: nil)
        func start(_ display: String) async throws -> String {
            try await machine.run(
                ["ssh", "install"],
                extra: [
                    "DISPLAY": display, "WAYLAND_DISPLAY": "",
                    "XDG_RUNTIME_DIR": machine.directory.path,
                ]
            ).output
        }
        let socket = machine.directory.path(of: "latchkey/ssh-agent.sock")
        let there = try await start("")
        #expect(there.contains("in a terminal of its own"), "\(there)")
        #expect(there.contains("latchkey-agent --socket \(socket) --pin-source tty\n"), "\(there)")
        let onDesktop = try await start(":0")
        #expect(!onDesktop.contains("--pin-source"), "\(onDesktop)")
        #expect(
            onDesktop.contains("latchkey-agent --socket \(socket) &\n")
                || onDesktop.contains("systemctl --user enable --now"), "\(onDesktop)")
    }

    @Test func `a file that cannot be read is not replaced`() async throws {
        let machine = try Machine(tcti: nil)
        try FileManager.default.createDirectory(
            atPath: machine.directory.path(of: ".ssh/config"), withIntermediateDirectories: true)
        let outcome = try await machine.run("ssh", "install", "--write")
        #expect(outcome.status == 7)
        #expect(outcome.errors.contains(".ssh/config cannot be read"), "\(outcome.errors)")
        #expect(!outcome.errors.contains("NSCocoaError"))
    }

    @Test(.softwareTPM, .requires(program: "swtpm"), .requires(program: "ssh-agent"))
    func `keys of the user's agent stay within reach of ssh`() async throws {
        try await OpenSSHAgent.withRunning { other in
            var machine = try Machine(tcti: SoftwareTPM.current.tcti)
            machine.environment["XDG_RUNTIME_DIR"] = machine.directory.path
            machine.environment["SSH_AUTH_SOCK"] = other.socket
            let file = machine.directory.path(of: ".ssh/config")
            func write(_ options: String...) async throws -> Outcome {
                try await machine.run(["ssh", "install", "--write"] + options)
            }
            // No latchkey-agent runs.
            let refused = try await write()
            #expect(refused.status != 0)
            #expect(
                refused.errors.contains("ssh would lose one key of the agent"), "\(refused.errors)")
            #expect(!FileManager.default.fileExists(atPath: file))
            #expect(try await write("--host", "a").status == 0)
            #expect(try await machine.run("ssh", "install", "--remove").status == 0)
            try FileManager.default.createDirectory(
                atPath: machine.directory.path(of: "latchkey"), withIntermediateDirectories: false)
            let socket = machine.directory.path(of: "latchkey/ssh-agent.sock")
            for (setting, isKept) in [("none", false), (other.socket, true)] {
                try await SSHAgent.withRunning(
                    machine, extra: ["LATCHKEY_AGENT_SOCKET": setting]
                ) { agent in
                    try FileManager.default.createSymbolicLink(
                        atPath: socket, withDestinationPath: agent.socket)
                    let outcome = try await write()
                    #expect((outcome.status == 0) == isKept, "\(outcome.errors)")
                    if !isKept { #expect(outcome.errors.contains("agent-socket")) }
                    try FileManager.default.removeItem(atPath: socket)
                }
            }
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
