import FoundationEssentials
import Glibc
import LatchkeySimulators
import LatchkeyTesting
import SystemPackage
import Testing

/// The tool on a terminal with typed input and the default PIN source.
@Suite(
    .softwareTPM, .requires(program: "swtpm"), .requires(program: "python3"),
    .timeLimit(.minutes(15)))
struct TerminalTests {
    /// Runs the tool on a new terminal and types one line at each prompt.
    private static let typist = """
        import json, os, pty, signal, sys
        keys, command = json.loads(sys.argv[1]), sys.argv[2:]
        signal.alarm(300)
        read, write = os.pipe()
        pid, terminal = pty.fork()
        if pid == 0:
            os.dup2(write, 1)
            os.close(read)
            os.close(write)
            os.execv(command[0], command)
        os.close(write)
        screen = seen = b""
        try:
            while True:
                data = os.read(terminal, 4096)
                if not data:
                    break
                screen += data
                seen += data
                # A message can contain “PIN: ”, too.
                if keys and seen.endswith((b"PIN: ", b"again: ", b"confirm: ", b"Secret: ")):
                    seen = b""
                    os.write(terminal, keys.pop(0).encode())
        except OSError:
            pass
        output = os.fdopen(read).read()
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        print(json.dumps({"status": status, "output": output, "screen": screen.decode()}))
        """

    private struct Result: Decodable {
        let status: Int32
        let output: String
        let screen: String
    }

    private func type(
        _ keys: [String], at machine: Machine, program executable: FilePath = Products.latchkey,
        _ arguments: String...
    ) async throws -> Result {
        try await type(keys, at: machine, program: executable, arguments)
    }

    private func type(
        _ keys: [String], at machine: Machine, program executable: FilePath, _ arguments: [String]
    ) async throws -> Result {
        let lines = String(decoding: try JSONEncoder().encode(keys), as: UTF8.self)
        let text = try await program(
            "python3", ["-c", Self.typist, lines, executable.string] + arguments,
            environment: machine.environment)
        return try JSONDecoder().decode(Result.self, from: Data(text.utf8))
    }

    @Test func `prompts for PINs are on the terminal, and stdout has only the result`() async throws
    {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let created = try await type(["2580\r", "2580\r"], at: machine, "key", "create", "--json")
        #expect(created.status == 0, "\(created.screen)")
        #expect(created.screen.contains("New PIN again:"))
        let id = try #require(
            JSONDecoder().decode([String: JSON].self, from: Data(created.output.utf8))["id"]?.string
        )
        let signed = try await type(["2580\r"], at: machine, "key", "sign", id, "/dev/null")
        #expect(signed.status == 0)
        #expect(signed.output.utf8.count == 87)
        #expect(
            signed.screen.contains(
                "asks for your PIN to sign with the key ‘\(id)’ (container ‘default’). 3 attempts"))
        for screen in [created.screen, signed.screen] { #expect(!screen.contains("2580")) }
    }

    @Test func `a new PIN that is too short for the TPM is asked for again`()
        async throws
    {
        let tpm = try await SoftwareTPM(hasLockoutPassword: false)
        let machine = try Machine(tcti: tpm.tcti)
        let created = try await type(
            ["258\r", "25803\r", "25803\r", "25803\r", "258036\r", "258036\r"], at: machine, "key",
            "create")
        #expect(created.status == 0, "\(created.screen)")
        #expect(
            created.screen.contains(
                "Use at least 6 characters (4 if the TPM's lockout password is set)."))
        #expect(
            created.screen.contains(
                "the PIN has fewer than 4 characters. Use at least 6 characters (4 if the TPM's"))
        #expect(created.screen.contains("password is empty: use at least 6 characters."))
        #expect(created.screen.contains("the PIN has fewer than 6 characters"))
        #expect(created.screen.ranges(of: "again:").count == 2)
        await tpm.cutPower()
    }

    @Test(arguments: ["\u{3}": -SIGINT, "\u{4}": 3])
    func `Ctrl-C ends by SIGINT and Ctrl-D with 3, without a PIN attempt`(
        key: String, status: Int32
    ) async throws {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let created = try await machine.run("key", "create", "--json", pins: ["2580"]).json()
        let id = try #require(created["id"]?.string)
        let declined = try await type([key], at: machine, "key", "sign", id, "/dev/null", "--json")
        #expect(declined.status == status)
        let error = try JSONDecoder().decode([String: JSON].self, from: Data(declined.output.utf8))[
            "error"]
        #expect(error?["code"] == "cancelled")
        #expect(try await machine.run("pin", "status", "--json").json()["attemptsLeft"] == 3)
    }

    @Test func `a terminal gets headings, local times and its width, and scripts the same text`()
        async throws
    {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let made = try await machine.run("key", "create", "--label", "laptop", pins: ["2580"])
        let id = try #require(made.output.firstMatch(of: /Key: +(\S+)/)).1
        func screen(_ columns: Int, _ command: String) async throws -> [Substring] {
            let shell =
                "stty cols \(columns) </dev/tty; exec \(Products.latchkey) \(command) >/dev/tty"
            let screen = try await type(
                [], at: machine, program: "/usr/bin/env",
                ["TERM=dumb", "TZ=JST-9", "sh", "-c", shell]
            ).screen
            return screen.split(separator: "\r\n")
        }
        let list = try await screen(100, "key list")
        #expect(list.first?.hasPrefix("LABEL   ID") == true, "\(list)")
        #expect(list.last?.hasPrefix("laptop  \(id.prefix(8))  pin") == true, "\(list)")
        let script = try await machine.run("key", "list").output
        #expect(script.hasPrefix("\(id)  pin  simulated(swtpm)"), "\(script)")

        let details = try await screen(100, "key show laptop")
        #expect(details.contains { $0.hasPrefix("Created:") && $0.contains(" (") }, "\(details)")
        let created = try #require(made.output.firstMatch(of: /Created: +(\S+)Z/)).1
        let utc = try Date("\(created)Z", strategy: .iso8601)
        let local = utc.addingTimeInterval(9 * 3600).formatted(.iso8601).prefix(16)
        #expect(details.contains { $0.contains(local.replacing("T", with: " ")) }, "\(details)")

        for columns in [40, 72] {
            let checks = try await screen(columns, "doctor")
            // A single word, such as an address, stays whole.
            let long = checks.filter { line in
                line.count > columns && line.drop { $0 == " " }.contains(" ")
            }
            #expect(long.isEmpty, "\(long)")
        }
    }

    @Test func `a prompt is wrapped to the terminal's width`() async throws {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        try #require(
            try await machine.run("key", "create", "--label", "laptop", pins: ["2580"]).status == 0)
        let shell =
            "stty cols 40 </dev/tty; exec \(Products.latchkey) key sign laptop /dev/null"
        let signed = try await type(
            ["2580\r"], at: machine, program: "/usr/bin/env", ["sh", "-c", shell])
        #expect(signed.status == 0, "\(signed.screen)")
        let lines = signed.screen.split(separator: "\r\n")
        #expect(lines.allSatisfy { $0.count <= 40 }, "\(lines)")
        #expect(
            lines.joined(separator: " ").contains(
                "asks for your PIN to sign with the key ‘laptop’ (container ‘default’)."))
    }

    @Test func `a typed secret is not shown, and ends with Return`() async throws {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let stored = try await type(["geheim\r"], at: machine, "vault", "store", "app")
        #expect(stored.status == 0, "\(stored.screen)")
        #expect(!stored.screen.contains("geheim"))
        #expect(try await machine.run("vault", "show", "app").output == "geheim")
        let declined = try await type(["\u{3}"], at: machine, "vault", "update", "app")
        #expect(declined.status == -SIGINT)
        #expect(try await machine.run("vault", "show", "app").output == "geheim")
    }

    @Test func `the prompt for a second vault says that it has the PIN of the first one`()
        async throws
    {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let store = ["vault", "store", "--biometrics", "--policy", "pin"]
        let hint = "It is the PIN that the vaults and other secrets of this container already have."
        let first = try await type(
            ["secret\r", "2580\r", "2580\r"], at: machine, program: Products.latchkey,
            store + ["one"])
        #expect(first.status == 0, "\(first.screen)")
        #expect(!first.screen.contains("already have"))
        let second = try await type(
            ["secret\r", "2580\r"], at: machine, program: Products.latchkey, store + ["two"])
        #expect(second.status == 0, "\(second.screen)")
        let shown: String = second.screen.replacing("\r\n", with: " ")
        #expect(shown.contains(hint), "\(shown)")
    }

    @Test func `pin change asks whether several PINs are the same before it tries one`()
        async throws
    {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let change = ["pin", "change"]
        try #require(
            try await machine.run("key", "create", "--label", "mine", pins: ["2580"]).status == 0)
        // One PIN needs no question.
        let one = try await type(
            ["2580\r", "2581\r", "2581\r"], at: machine, program: Products.latchkey, change)
        #expect(one.status == 0, "\(one.screen)")
        #expect(!one.screen.contains("confirm"))
        try #require(
            try await machine.run("key", "create", "--ssh", "--label", "work", pins: ["1357"])
                .status
                == 0)
        let stored = try await machine.run(
            ["vault", "store", "v", "--biometrics", "--policy", "pin"], pins: ["2581"], input: "x")
        try #require(stored.status == 0)
        let declined = try await type(
            ["no\r"], at: machine, program: Products.latchkey, change)
        #expect(declined.status == 3)
        let screen: String = declined.screen.replacing("\r\n", with: " ")
        for words in [
            "the key ‘mine’", "the SSH key ‘work’", "the vaults and credentials",
            "‘latchkey pin change KEY’", "‘latchkey pin change --secrets’",
        ] { #expect(screen.contains(words), "\(screen)") }
        #expect(try await machine.run("pin", "status", "--json").json()["attemptsLeft"] == 3)
        // The prompt for one names it.
        let work = try await type(
            ["1357\r", "2581\r", "2581\r"], at: machine, program: Products.latchkey,
            change + ["work"])
        #expect(work.status == 0, "\(work.screen)")
        #expect(work.screen.contains("change the PIN of the key ‘work’"))
        let all = try await type(
            ["yes\r", "2581\r", "9753\r", "9753\r"], at: machine, program: Products.latchkey,
            change)
        #expect(all.status == 0, "\(all.screen)")
        #expect(try await machine.run("vault", "show", "v", pins: ["9753"]).output == "x")
        #expect(try await machine.run("pin", "status", "--json").json()["attemptsLeft"] == 3)
    }

    @Test func `a deletion of an object without its name requires --yes without a terminal`()
        async throws
    {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let stored = try await machine.run("vault", "store", "one", input: "secret")
        #expect(stored.status == 0)
        #expect(stored.errors.contains("no backup opens the vault"), "\(stored.errors)")
        let undecided = try await machine.run("vault", "reset")
        #expect(undecided.status == 2)
        #expect(undecided.errors.contains("--yes"), "\(undecided.errors)")
        #expect(try await machine.run("vault", "show", "one").output == "secret")
        #expect(try await machine.run("vault", "reset", "--yes").status == 0)
    }

    @Test func `the reset of a store counts each kind of key`() async throws {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let created = try await machine.run("key", "create", "--ssh", pins: ["258025"])
        #expect(created.status == 0, "\(created.errors)")
        #expect(created.errors.contains("no backup restores it"), "\(created.errors)")
        let declined = try await type(
            ["no\r"], at: machine, program: Products.latchkey, ["store", "reset"])
        #expect(declined.status == 3)
        #expect(declined.screen.contains("1 SSH key"), "\(declined.screen)")
    }

    /// The commands that delete something of which there is no copy, and whose arguments name it.
    @Test func `a deletion asks at a terminal, and requires --yes without one`() async throws {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        func store() async throws -> [[String]] {
            #expect(try await machine.run("vault", "store", "app", input: "secret").status == 0)
            let key = try await machine.run("key", "create", "--policy", "none", "--json").json()
            return [
                ["vault", "reset", "app"], ["key", "delete", try #require(key["id"]?.string)],
            ]
        }
        for command in try await store() {
            for answer in ["no\r", "\r"] {
                let declined = try await type(
                    [answer], at: machine, program: Products.latchkey, command)
                #expect(declined.status == 3, "\(declined.screen)")
                #expect(
                    declined.screen.contains("will be deleted. Latchkey keeps no copy."),
                    "\(declined.screen)")
            }
            let done = try await type(
                ["yes\r"], at: machine, program: Products.latchkey, command)
            #expect(done.status == 0, "\(done.screen)")
        }
        for command in try await store() {
            let asked = try await type(
                [], at: machine, program: Products.latchkey, command + ["--yes"])
            #expect(asked.status == 0, "\(asked.screen)")
        }
        for command in try await store() {
            let undecided = try await machine.run(command)
            #expect(undecided.status == 2)
            #expect(undecided.errors.contains("--yes"), "\(undecided.errors)")
            #expect(try await machine.run(command + ["--yes"]).status == 0)
        }
    }

    @Test func `only terminals get colour, unless NO_COLOR is set`() async throws {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let doctor = "exec \(Products.latchkey) doctor >/dev/tty"
        func screen(_ variables: String...) async throws -> String {
            try await type(
                [], at: machine, program: "/usr/bin/env", variables + ["sh", "-c", doctor]
            ).screen
        }
        #expect(try await screen("TERM=xterm").contains("\u{1B}[32mok"))
        for plain in [try await screen("TERM=xterm", "NO_COLOR=1"), try await screen("TERM=dumb")] {
            #expect(plain.contains("ok       store") && !plain.contains("\u{1B}"))
        }
        let failed = try await type(
            [], at: machine, program: "/usr/bin/env",
            ["TERM=xterm", Products.latchkey.string, "key", "show", "none"])
        #expect(failed.screen.contains("\u{1B}[31mlatchkey:\u{1B}[0m Could not show the key"))
        #expect(try await !machine.run("doctor").output.contains("\u{1B}"))
    }

    @Test func `the README's first program signs with a new key`() async throws {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let greeting = try await type(
            ["2580\r", "2580\r", "2580\r"], at: machine,
            program: Products.directory.appending("greeting"))
        #expect(greeting.status == 0, "\(greeting.screen)")
        let lines = greeting.output.split(separator: "\n")
        #expect(lines.first?.hasPrefix("simulated(swtpm) ") == true)
        #expect(lines.last == "The signature is right.")
    }
}
