import Foundation
import LatchkeySimulators
import LatchkeyTesting
import Testing

/// Signatures of `ssh-keygen -Y` and git, and the other requests of OpenSSH's programs.
@Suite(
    .softwareTPM, .requires(program: "swtpm"), .requires(program: "ssh-keygen"),
    .timeLimit(.minutes(15)))
struct SSHSigningTests {
    private func machine() throws -> Machine { try Machine(tcti: SoftwareTPM.current.tcti) }

    @Test(.requires(program: "git")) func `git signs commits, and verifies them`() async throws {
        try await SSHAgent.withRunning(machine()) { agent in
            let key = try await agent.createKey()
            let outcome = try await agent.shell(
                """
                echo "ada@example.org $(cat \(key))" >allowed
                git init -q repository && cd repository
                git config user.name Ada; git config user.email ada@example.org
                git config gpg.format ssh; git config gpg.ssh.allowedSignersFile ../allowed
                git config user.signingKey "key::$(cut -d ' ' -f 1,2 \(key))"
                git commit -q -S --allow-empty -m one
                git tag -s -m tag v1
                git verify-commit HEAD; git verify-tag v1
                """)
            #expect(outcome.status == 0, "\(outcome.errors)")
            #expect(agent.prompts.count == 2)
            #expect(
                agent.prompts.allSatisfy {
                    $0.contains("sign a git commit or tag, with the SSH key “work”")
                })
        }
    }

    @Test func `ssh-keygen signs files, and another text does not verify`() async throws {
        try await SSHAgent.withRunning(machine()) { agent in
            let key = try await agent.createKey()
            let outcome = try await agent.shell(
                """
                echo text >message; echo "ada $(cat \(key))" >allowed
                for hash in sha256 sha512; do
                    rm -f message.sig
                    ssh-keygen -Y sign -q -O hashalg=$hash -n file -f \(key) message
                    ssh-keygen -Y verify -n file -I ada -f allowed -s message.sig <message
                done
                ! echo other | ssh-keygen -Y verify -n file -I ada -f allowed -s message.sig
                ! ssh-keygen -Y verify -n git -I ada -f allowed -s message.sig <message
                """)
            #expect(outcome.status == 0, "\(outcome.errors)")
            #expect(agent.prompts.allSatisfy { $0.contains("sign data of the kind “file”") })
        }
    }

    @Test(.requires(program: "softhsm2-util"))
    func `one PIN signs several commits within the time of a token's key`() async throws {
        let (machine, token) = try await Machine.withToken()
        defer { withExtendedLifetime(token) {} }
        try await SSHAgent.withRunning(machine, pin: "123456") { agent in
            let key = try await agent.createKey(
                "rebase", ["--reuse", "300"], pins: ["123456", "123456"])
            for _ in 0..<5 {
                let signed = try await agent.client(
                    "ssh-keygen", ["-Y", "sign", "-n", "git", "-f", key], input: "commit")
                #expect(signed.status == 0, "\(signed.errors)")
            }
            #expect(agent.prompts.count == 1)
        }
    }

    @Test func `data of no known form is signed only on request, without a prompt otherwise`()
        async throws
    {
        try await SSHAgent.withRunning(machine()) { agent in
            let key = try await agent.createKey()
            #expect(try await agent.client("ssh-add", ["-T", key]).status != 0)
            #expect(agent.prompts.isEmpty)
            #expect(
                try await agent.machine.run("ssh", "restrict", "work", "--sign-anything").status
                    == 0)
            let signed = try await agent.client("ssh-add", ["-T", key])
            #expect(signed.status == 0, "\(signed.errors)")
            #expect(agent.prompts.first?.contains("SIGN UNKNOWN DATA") ?? false)
        }
    }

    @Test func `the agent lists without the TPM, and refuses to be changed`() async throws {
        var machine = try machine()
        let other = machine
        machine.environment["LATCHKEY_TCTI"] = "device:/nonexistent/tpm"
        try await SSHAgent.withRunning(machine) { agent in
            let created = try await other.run(
                "key", "create", "--ssh", "--label", "work", pins: [SSHAgent.pin])
            #expect(created.status == 0, "\(created.errors)")
            let key = try await agent.exportKey("work")
            let listed = try await agent.client("ssh-add", ["-L"])
            #expect(try listed.output == String(contentsOfFile: key, encoding: .utf8))
            let refused = try await agent.shell(
                """
                ssh-keygen -q -t ed25519 -N '' -f software
                ! ssh-add software
                ! ssh-add -D
                ! ssh-add -d \(key)
                ! ssh-add -s /nonexistent.so </dev/null
                ! printf 'a\\na\\n' | setsid ssh-add -x
                """)
            #expect(refused.status == 0, "\(refused.errors)")
            #expect(try await agent.client("ssh-add", ["-L"]).output == listed.output)
        }
    }

    @Test func `only keys of latchkey ssh are offered, and they do not sign for other commands`()
        async throws
    {
        try await SSHAgent.withRunning(machine()) { agent in
            let machine = agent.machine
            let other = try await machine.run(
                "key", "create", "--label", "other", "--json", pins: [SSHAgent.pin])
            #expect(try await agent.client("ssh-add", ["-l"]).status == 1, "no identities")
            let id = try #require(other.json()["id"]?.string)
            #expect(try await machine.run("ssh", "add", id).status == 0)
            #expect(try await agent.client("ssh-add", ["-l"]).status == 0)
            let refused = try await machine.run(
                "key", "sign", id, "/dev/null", "--json", pins: [SSHAgent.pin])
            #expect(try refused.json()["error"]?["code"] == "conflict")
            #expect(try await machine.run("key", "show", id, "--json").json()["usedBy"] == "ssh")
            #expect(
                try await machine.run("pin", "change", id, pins: [SSHAgent.pin, "147014"]).status
                    == 0)
            #expect(try await machine.run("ssh", "remove", id).status == 0)
            #expect(try await agent.client("ssh-add", ["-l"]).status == 1)
            #expect(
                try await machine.run("key", "sign", id, "/dev/null", pins: ["147014"]).status == 0)
        }
    }

    @Test func `a key without user verification is offered on request only`() async throws {
        try await SSHAgent.withRunning(machine()) { agent in
            let machine = agent.machine
            #expect(try await machine.run("key", "create", "--ssh", "--policy", "none").status == 2)
            #expect(
                try await machine.run("key", "create", "--policy", "none", "--label", "robot")
                    .status == 0)
            #expect(try await machine.run("ssh", "add", "robot").status != 0)
            #expect(
                try await machine.run("ssh", "add", "robot", "--without-verification").status == 0)
            let key = try await agent.exportKey("robot")
            let signed = try await agent.client(
                "ssh-keygen", ["-Y", "sign", "-n", "file", "-f", key], input: "x")
            #expect(signed.status == 0, "\(signed.errors)")
            #expect(agent.prompts.isEmpty)
        }
    }

    @Test func `a damaged record causes few lines in the log`() async throws {
        let log = try await SSHAgent.withRunning(machine()) { agent in
            _ = try await agent.createKey()
            let machine = agent.machine
            let id = try await machine.run("key", "show", "work", "--json").json()["id"]?.string
            try store(
                machine, "ssh.key.\(try #require(id))", attributes: #"{"newer":"1"}"#)
            let client = try RawAgentClient(agent.socket)
            for _ in 0..<200 { #expect(await client.request([11]) != nil) }
        }
        let lines = log.split(separator: "\n").filter { $0.contains("warning") }
        #expect((1...60).contains(lines.count), "\(lines.count)")
    }

    @Test func `a record that another program changed signs nothing`() async throws {
        let log = try await SSHAgent.withRunning(machine()) { agent in
            let key = try await agent.createKey()
            _ = try await agent.createKey("other")
            let machine = agent.machine
            func id(_ label: String) async throws -> String {
                "ssh.key.\(try #require(try await machine.run("key", "show", label, "--json").json()["id"]?.string))"
            }
            let (work, other) = (try await id("work"), try await id("other"))
            func isSigned() async throws -> Bool {
                try await agent.client(
                    "ssh-keygen", ["-Y", "sign", "-n", "file", "-f", key], input: "x"
                ).status == 0
            }
            #expect(
                try await machine.run("ssh", "restrict", "work", "--allow-forwarding").status == 0)
            #expect(try await isSigned())
            // The restriction is removed, and a permission added.
            try store(machine, work, attributes: #"{"anything":"1","forwarding":"1"}"#)
            #expect(try await !isSigned())
            #expect(agent.prompts.count == 1, "the record is checked before the prompt")
            try store(machine, work, attributes: #"{"newer":"1"}"#)
            #expect(try await !agent.client("ssh-add", ["-L"]).output.contains("work"))
            // Another key, such as the key of a login, in the record of an SSH key.
            try store(machine, work, attributes: #"{"forwarding":"1"}"#)
            try store(machine, work, storedKey(machine, other))
            #expect(try await !isSigned())
        }
        #expect(log.contains("changed by another program") || log.contains("damaged"), "\(log)")
    }
}
