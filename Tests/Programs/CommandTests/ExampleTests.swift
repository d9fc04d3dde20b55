import FoundationEssentials
import GRDB
import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import LatchkeyVault
import RawDatabase
import SystemPackage
import Testing

/// The notebook of `Examples/` with a software TPM, the real identity server and a scripted
/// browser.
@Suite(
    .softwareTPM, .requires(program: "swtpm"), .requires(program: "python3"),
    .timeLimit(.minutes(15)))
struct ExampleTests {
    private static let notes = Products.directory.appending("notes")

    @Test func `log in, write, lock, read, and log in again with the PIN alone`() async throws {
        try await Machine.withServer { machine in
            let first = try await machine.run(
                pins: ["2580", "2580", "2580"],
                input: "login\nwrite buy milk\nwrite sow peas\nread\nlock\nread\nquit\n",
                program: Self.notes)
            #expect(first.status == 0, "\(first.errors)")
            #expect(first.output.contains("You are alice."), "\(first.output)")
            #expect(first.output.contains("Notes: 2."))
            #expect(first.output.contains("The notes are locked."))
            #expect(first.output.components(separatedBy: "- buy milk\n- sow peas\n").count == 3)

            var later = machine
            later.environment["BROWSER"] = "/bin/false"
            let second = try await later.run(
                pins: ["2580", "2580"], input: "login\nread\nlogout\nquit\n", program: Self.notes)
            #expect(second.status == 0, "\(second.errors)")
            #expect(second.output.hasPrefix("The notes are locked.\n"))
            #expect(second.output.contains("You are alice."), "\(second.output)")
            #expect(second.output.contains("- buy milk\n- sow peas\n"))
            #expect(second.output.contains("You are logged out."))
        }
    }

    @Test func `a wrong PIN shows no note and the attempts left`() async throws {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let written = try await machine.run(
            pins: ["2580", "2580"], input: "write buy milk\nquit\n", program: Self.notes)
        #expect(written.output.contains("Notes: 1."), "\(written.output)")
        let refused = try await machine.run(
            pins: ["1111"], input: "read\nquit\n", program: Self.notes)
        #expect(refused.status == 0)
        #expect(!refused.output.contains("milk"))
        #expect(refused.output.contains("2 attempts are left"), "\(refused.output)")
    }

    // MARK: Each error has a message and a next step

    /// The notebook's rows, as another version of the program uses them.
    private func records(_ machine: Machine) async throws -> RecordContainer {
        let store = try await RecordStore(
            directory: machine.directory.path(of: "data/latchkey"), profile: "notes")
        return try RecordContainer(
            store: store, keystore: TPMKeystore(tcti: SoftwareTPM.current.tcti, anchors: store))
    }

    @Test func `notes of another type are kept until the user erases them`() async throws {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        do {
            let space = try VaultSpace(
                records: try await records(machine), presence: ScriptedPresence(pins: "2580"),
                policy: .pin)
            let vault: Vault<[String: String]> = VaultFactory.retrieveVault(key: "notes", in: space)
            _ = try await vault.storeToBiometrics(credentials: ["2026-11-23": "buy milk"])
        }
        let outcome = try await machine.run(
            pins: ["2580", "2580", "2580"],
            input: "read\nwrite sow peas\nerase\nno\nread\nerase\nyes\nquit\n", program: Self.notes)
        #expect(outcome.status == 0, "\(outcome.errors)")
        #expect(outcome.output.hasPrefix("The notes are locked.\n"))
        // Reading and writing fail and change nothing. An erasure that the user declines changes
        // nothing either.
        let failure = "the stored value is intact, and has another type than this program reads"
        #expect(outcome.output.components(separatedBy: failure).count == 4, "\(outcome.output)")
        #expect(!outcome.output.contains("deletes the notes"), "an intact value")
        #expect(outcome.output.hasSuffix("There are no notes yet.\nnotes> "))
        let next = try await machine.run(
            pins: ["2580"], input: "write sow peas\nread\nquit\n", program: Self.notes)
        #expect(next.output.contains("- sow peas\n"), "\(next.output)")
    }

    @Test(arguments: [
        "payload = zeroblob(64)", "kind = 'x'", "class = 'device'", "attributes = 'x'",
    ])
    func `damaged notes are reported and can be erased`(change: String) async throws {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        _ = try await machine.run(
            pins: ["2580", "2580"], input: "write buy milk\nquit\n", program: Self.notes)
        let database = try DatabaseQueue.raw(
            at: machine.directory.path(of: "data/latchkey/notes/latchkey.sqlite"))
        try await database.write { database in
            try database.execute(
                literal: "UPDATE record SET \(sql: change) WHERE id = 'vault.notes'")
            #expect(database.changesCount == 1)
        }
        let outcome = try await machine.run(
            pins: ["2580", "2580", "2580"], input: "read\nerase\nyes\nwrite sow peas\nread\nquit\n",
            program: Self.notes)
        #expect(outcome.status == 0, "\(outcome.errors)")
        #expect(outcome.output.contains("‘erase’ deletes the notes."), "\(outcome.output)")
        #expect(!outcome.output.contains("milk"))
        #expect(outcome.output.contains("- sow peas\n"), "\(outcome.output)")
    }

    @Test func `a lockout is reported, and the notes stay locked`() async throws {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        _ = try await machine.run(
            pins: ["2580", "2580"], input: "write buy milk\nquit\n", program: Self.notes)
        let wrong = try await machine.run(
            pins: ["1111", "1111", "1111", "1111", "1111"],
            input: "read\nread\nread\nread\nlock\nquit\n",
            program: Self.notes)
        #expect(wrong.status == 0, "\(wrong.errors)")
        #expect(!wrong.output.contains("milk"))
        #expect(wrong.output.contains("locked out"), "\(wrong.output)")
        #expect(wrong.output.hasSuffix("The notes are locked.\nnotes> "))
    }

    @Test func `a session that the server has ended leads to a login`() async throws {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        try await withServer(of: machine, database: "one.sqlite") { machine in
            let first = try await machine.run(
                pins: ["2580", "2580"], input: "login\nwhoami\nwrite buy milk\nquit\n",
                program: Self.notes)
            #expect(
                first.output.components(separatedBy: "You are alice.").count == 3, "\(first.output)"
            )
        }
        // A new server database contains neither the session nor the key.
        try await withServer(of: machine, database: "two.sqlite") { machine in
            let second = try await machine.run(
                pins: Array(repeating: "2580", count: 6),
                input: "whoami\nlogin\nlogin\nwhoami\nread\nlogout\nwhoami\nquit\n",
                program: Self.notes)
            #expect(second.status == 0, "\(second.errors)")
            let answers = second.output.components(separatedBy: "notes> ").dropFirst().map { $0 }
            try #require(answers.count == 8, "\(second.output)")
            #expect(answers[0].hasSuffix("Log in, then try again.\n"), "\(answers[0])")
            #expect(answers[1].contains("Log in another way"), "\(answers[1])")
            #expect(
                answers[2].hasSuffix("You are alice.\n") && answers[3] == "You are alice.\n",
                "\(second.output)")
            #expect(answers[4] == "- buy milk\n" && answers[5] == "You are logged out.\n")
            #expect(answers[6].hasSuffix("Log in, then try again.\n"))
        }
    }

    @Test func `after the server has ended the session, a logout and a new login succeed`()
        async throws
    {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        try await withServer(of: machine, database: "one.sqlite") { machine in
            let first = try await machine.run(
                pins: Array(repeating: "2580", count: 2), input: "login\nquit\n",
                program: Self.notes)
            #expect(first.output.contains("You are alice."), "\(first.output)")
        }
        try await withServer(of: machine, database: "two.sqlite") { machine in
            let second = try await machine.run(
                pins: Array(repeating: "2580", count: 4),
                input: "whoami\nlogout\nlogin\nwhoami\nquit\n",
                program: Self.notes)
            let answers = second.output.components(separatedBy: "notes> ").dropFirst().map { $0 }
            try #require(answers.count == 5, "\(second.output)")
            #expect(answers[0].hasSuffix("Log in, then try again.\n"), "\(answers[0])")
            #expect(answers[1] == "You are logged out.\n")
            #expect(
                answers[2].hasSuffix("You are alice.\n") && answers[3] == "You are alice.\n",
                "\(second.output)")
        }
    }

    @Test func `a store of another TPM is archived after a confirmation`() async throws {
        try await Machine.withServer { machine in
            let first = try await machine.run(
                pins: Array(repeating: "2580", count: 4), input: "login\nwrite buy milk\nquit\n",
                program: Self.notes)
            #expect(first.output.contains("Notes: 1."), "\(first.output)")
            let tpm = try await SoftwareTPM()
            var other = machine
            other.environment["LATCHKEY_TCTI"] = tpm.tcti
            let declined = try await other.run(pins: [], input: "no\n", program: Self.notes)
            #expect(declined.status == 1)
            #expect(
                declined.output.contains("created the store, or start over."), "\(declined.output)")
            // Nothing changed.
            let same = try await machine.run(
                pins: ["2580"], input: "whoami\nread\nquit\n", program: Self.notes)
            #expect(
                same.output.contains("You are alice.") && same.output.contains("- buy milk\n"),
                "\(same.output)")

            let second = try await other.run(
                pins: Array(repeating: "1357", count: 6),
                input: "yes\nlogin\nwrite sow peas\nread\nquit\n",
                program: Self.notes)
            #expect(second.status == 0, "\(second.errors)")
            #expect(second.output.contains("There are no notes yet.\n"), "\(second.output)")
            #expect(second.output.contains("You are alice.\n"))
            #expect(second.output.contains("- sow peas\n") && !second.output.contains("milk"))
            let folder = machine.directory.path(of: "data/latchkey/notes")
            let archives = try FileManager.default.contentsOfDirectory(atPath: folder)
                .filter { $0.hasPrefix("latchkey-") && $0.hasSuffix(".sqlite") }
            #expect(archives.count == 1)
            await tpm.cutPower()
        }
    }

    @Test(arguments: [
        "record SET attributes = 'x' WHERE id = 'login.key'", "classKey SET sealed = x'78'",
    ])
    func `a damaged login or store is archived after a confirmation`(change: String) async throws {
        try await Machine.withServer { machine in
            _ = try await machine.run(
                pins: Array(repeating: "2580", count: 4), input: "login\nwrite buy milk\nquit\n",
                program: Self.notes)
            let path = machine.directory.path(of: "data/latchkey/notes/latchkey.sqlite")
            try await DatabaseQueue.raw(at: path).write { database in
                try database.execute(literal: "UPDATE \(sql: change)")
                #expect(database.changesCount > 0)
            }
            // The program reports damaged record keys when it starts, and a damaged login when it
            // uses the login.
            let start = change.hasPrefix("classKey") ? "yes\n" : "login\nstart over\nyes\n"
            let outcome = try await machine.run(
                pins: Array(repeating: "2580", count: 6), input: "\(start)login\nwhoami\nquit\n",
                program: Self.notes)
            #expect(outcome.status == 0, "\(outcome.errors)")
            #expect(
                outcome.output.contains("‘start over’ archives the login and the notes."),
                "\(outcome.output)")
            #expect(outcome.output.contains("The archive is \(machine.directory.path)"))
            #expect(
                outcome.output.components(separatedBy: "You are alice.").count == 3,
                "\(outcome.output)")
        }
    }

    @Test func `a damaged file is archived after a confirmation`() async throws {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        _ = try await machine.run(
            pins: ["2580", "2580"], input: "write buy milk\nquit\n", program: Self.notes)
        let path = machine.directory.path(of: "data/latchkey/notes/latchkey.sqlite")
        // SQLite would restore the file from its log.
        for log in ["-wal", "-shm"] { try? FileManager.default.removeItem(atPath: path + log) }
        try Data(repeating: 7, count: 8192).write(to: URL(filePath: path))
        let outcome = try await machine.run(
            pins: ["2580", "2580"], input: "yes\nwrite sow peas\nread\nquit\n", program: Self.notes)
        #expect(outcome.status == 0, "\(outcome.output)")
        #expect(
            outcome.output.contains("- sow peas\n") && !outcome.output.contains("milk"),
            "\(outcome.output)")
    }

    /// Runs `body` with a server of this machine at one port, with its own users and sessions.
    private func withServer(
        of machine: Machine, database: String, _ body: (Machine) async throws -> Void
    ) async throws {
        let used = machine.directory.path(of: "port")
        let port = try? String(contentsOfFile: used, encoding: .utf8)
        try await IdentityProcess.withRunning(
            database: machine.directory.path(of: database), port: port
        ) { server in
            try server.port.write(toFile: used, atomically: true, encoding: .utf8)
            try await body(machine.at(server))
        }
    }
}
