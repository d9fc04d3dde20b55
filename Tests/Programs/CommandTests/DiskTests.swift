import Foundation
import LatchkeySimulators
import LatchkeyTesting
import Testing

/// The tool with a full or read-only disk, with another user's store, and with concurrent
/// processes.
@Suite(.softwareTPM, .requires(program: "swtpm"), .timeLimit(.minutes(15)))
struct DiskTests {
    /// The lines `NAME STATUS` that a script printed, in order.
    private struct Report: Equatable {
        let name: String
        let status: Int
    }

    /// A machine with something stored, and a script's preamble: `run NAME STDIN ARGUMENTS…` prints
    /// a command's status.
    private func machine() async throws -> (machine: Machine, preamble: String) {
        var machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let pins = machine.directory.path(of: "pins")
        try Data("2580\n2580\n".utf8).write(to: URL(filePath: pins))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: pins)
        machine.environment["LATCHKEY_PIN_SOURCE"] = "file:\(pins)"
        try await machine.require("vault", "store", "plain", input: "bystander")
        try await machine.require("vault", "store", "gated", "--biometrics", input: "bystander")
        let preamble = """
            set -u
            run() {
                name=$1 input=$2; shift 2
                printf '%s' "$input" | '\(Products.latchkey)' "$@" >"$XDG_CONFIG_HOME.out" 2>"$XDG_CONFIG_HOME.err"
                echo "$name $?"
            }
            store="$XDG_DATA_HOME/latchkey"

            """
        return (machine, preamble)
    }

    /// Runs a script in a mount namespace.
    private func reports(_ machine: Machine, _ script: String) async throws -> [Report] {
        let output = try await program(
            "unshare", ["-m", "bash", "-c", script], environment: machine.environment)
        return output.split(separator: "\n").compactMap { line in
            let words = line.split(separator: " ")
            guard words.count == 2, let status = Int(words[1]) else { return nil }
            return Report(name: String(words[0]), status: status)
        }
    }

    @Test(.enabled(if: geteuid() == 0, "needs root, to mount a small file system"))
    func `a full disk is reported and loses no data`() async throws {
        let (machine, preamble) = try await machine()
        let found = try await reports(
            machine,
            preamble + """
                mkdir "$XDG_DATA_HOME/small" && mount -t tmpfs -o size=1m tmpfs "$XDG_DATA_HOME/small"
                cp -a "$store" "$XDG_DATA_HOME/small/latchkey" && export XDG_DATA_HOME="$XDG_DATA_HOME/small"
                store="$XDG_DATA_HOME/latchkey"
                run before x vault store room
                cat /dev/zero >"$XDG_DATA_HOME/filler" 2>/dev/null
                run store x vault store new
                run update x vault update plain
                run upgrade '' vault upgrade plain
                run pin '' pin change
                run key '' key create --policy none
                run reset '' vault reset gated
                grep -q full "$XDG_CONFIG_HOME.err"; echo "says $?"
                rm "$XDG_DATA_HOME/filler"
                run plain '' vault show plain
                [ "$(cat "$XDG_CONFIG_HOME.out")" = bystander ]; echo "same $?"
                run gated '' vault show gated
                [ "$(cat "$XDG_CONFIG_HOME.out")" = bystander ]; echo "same $?"
                run after x vault store new
                """)
        #expect(
            found == [
                Report(name: "before", status: 0), Report(name: "store", status: 7),
                Report(name: "update", status: 7),
                Report(name: "upgrade", status: 7), Report(name: "pin", status: 7),
                Report(name: "key", status: 7),
                Report(name: "reset", status: 7), Report(name: "says", status: 0),
                Report(name: "plain", status: 0),
                Report(name: "same", status: 0), Report(name: "gated", status: 0),
                Report(name: "same", status: 0),
                Report(name: "after", status: 0),
            ])
    }

    @Test(.enabled(if: geteuid() == 0, "needs root, to mount a file system for reading only"))
    func `a read-only disk can be read but not written`() async throws {
        let (machine, preamble) = try await machine()
        let found = try await reports(
            machine,
            preamble + """
                mount --bind "$XDG_DATA_HOME" "$XDG_DATA_HOME" && mount -o remount,ro,bind "$XDG_DATA_HOME"
                run status '' vault status plain
                run show '' vault show plain
                run store x vault store new
                run pin '' pin change
                run reset '' vault reset plain
                mount -o remount,rw,bind "$XDG_DATA_HOME"
                run after '' vault show plain
                """)
        #expect(
            found.filter { ["store", "pin", "reset"].contains($0.name) }.allSatisfy {
                $0.status == 7
            }, "\(found)")
        #expect(found.last == Report(name: "after", status: 0), "\(found)")
        #expect(found.count == 6)
        // SQLite cannot read a write-ahead log without its shared memory, so the error says that
        // the store cannot be read.
        #expect(found.prefix(2).allSatisfy { [0, 7].contains($0.status) }, "\(found)")
    }

    @Test
    func `a store with another owner or mode is unavailable, which is not a server's refusal`()
        async throws
    {
        let (machine, _) = try await machine()
        let store = machine.directory.path(of: "data/latchkey")
        let file = "\(store)/default/latchkey.sqlite"
        for (path, wrong, right) in [(store, 0o755, 0o700), (file, 0o644, 0o600)] {
            try FileManager.default.setAttributes([.posixPermissions: wrong], ofItemAtPath: path)
            let outcome = try await machine.run("vault", "show", "plain", "--json")
            #expect(outcome.status == 7)
            #expect(try outcome.json()["error"]?["code"] == "unavailable")
            #expect(try outcome.json()["error"]?["recovery"]?.string?.contains("chmod") == true)
            try FileManager.default.setAttributes([.posixPermissions: right], ofItemAtPath: path)
        }
        if geteuid() == 0 {
            for path in [store, file] {
                try FileManager.default.setAttributes([.ownerAccountID: 1000], ofItemAtPath: path)
                let outcome = try await machine.run("vault", "show", "plain", "--json")
                #expect(outcome.status == 7)
                #expect(outcome.output.contains("belongs to another user"))
                try FileManager.default.setAttributes([.ownerAccountID: 0], ofItemAtPath: path)
            }
        }
        #expect(try await machine.run("vault", "show", "plain").output == "bystander")
    }

    /// The TPM has three object slots and no resource manager, so some processes may end with 10
    /// (try again).
    @Test(arguments: [2, 8])
    func `many processes write one store at once`(count: Int) async throws {
        let (machine, _) = try await machine()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for writer in 0..<count {
                group.addTask {
                    for round in 0..<3 {
                        var outcome: Outcome
                        repeat {
                            outcome = try await machine.run(
                                "vault", round == 0 ? "store" : "update", "vault\(writer)",
                                input: "\(writer).\(round)")
                        } while outcome.status == 10
                        #expect(outcome.status == 0, "\(outcome)")
                    }
                }
            }
            try await group.waitForAll()
        }
        for writer in 0..<count {
            #expect(
                try await machine.run("vault", "show", "vault\(writer)").output == "\(writer).2")
        }
        #expect(try await machine.run("vault", "show", "plain").output == "bystander")
    }
}
