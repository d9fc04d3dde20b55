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
                run list '' key list
                run state '' status
                run sealed '' vault show gated
                [ "$(cat "$XDG_CONFIG_HOME.out")" = bystander ]; echo "same $?"
                LATCHKEY_PIN_SOURCE=fd:99 run unasked x vault update gated
                grep -q full "$XDG_CONFIG_HOME.err"; echo "says $?"
                run store x vault store new
                run update x vault update plain
                run upgrade '' vault upgrade plain
                run pin '' pin change
                run key '' key create --policy none
                run doctor '' doctor
                run empty '' doctor --store "$XDG_DATA_HOME/none"
                run reset '' vault reset gated --yes
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
                Report(name: "before", status: 0), Report(name: "list", status: 0),
                Report(name: "state", status: 0), Report(name: "sealed", status: 0),
                Report(name: "same", status: 0), Report(name: "unasked", status: 7),
                Report(name: "says", status: 0), Report(name: "store", status: 7),
                Report(name: "update", status: 7),
                Report(name: "upgrade", status: 7), Report(name: "pin", status: 7),
                Report(name: "key", status: 7), Report(name: "doctor", status: 7),
                Report(name: "empty", status: 7),
                Report(name: "reset", status: 7), Report(name: "says", status: 0),
                Report(name: "plain", status: 0),
                Report(name: "same", status: 0), Report(name: "gated", status: 0),
                Report(name: "same", status: 0),
                Report(name: "after", status: 0),
            ])
    }

    /// The commands that only read, with the expected status and text.
    private static let reading = """
        run status 0 '' vault status plain
        run show 0 '' vault show plain
        run gated 0 '' vault show gated
        run list 0 '' key list
        run key 0 '' key show signer
        run export 0 '' key export signer --format pem
        run sign 0 /etc/hostname key sign signer /etc/hostname
        run state 0 '' status
        run credentials 0 '' credential list
        run ssh 0 '' ssh list
        run passkeys 0 '' passkey list
        run pins 0 '' pin status

        """

    /// The commands that write, which do not prompt.
    private static let writing = """
        export LATCHKEY_PIN_SOURCE=fd:99
        run store 7 x vault store new
        run protect 7 x vault store new --biometrics
        run update 7 x vault update gated
        run downgrade 7 '' vault downgrade gated
        run pin 7 '' pin change
        run reset 7 '' vault reset plain --yes
        run create 7 '' key create
        run rename 7 '' key rename signer other
        run delete 7 '' key delete "$id" --yes
        run doctor 7 '' doctor

        """

    /// The reason why a store cannot be written.
    enum Obstacle: CaseIterable { case fileSystem, fileSystemAfterCrash, mode }

    @Test(
        .enabled(if: geteuid() == 0, "needs root, to mount a file system for reading only"),
        .requires(program: "setpriv"), arguments: Obstacle.allCases)
    func `a store that cannot be written can be read`(_ obstacle: Obstacle) async throws {
        let (machine, _) = try await machine()
        let made = try await machine.run(
            "key", "create", "--label", "signer", "--json", pins: ["2580"])
        let id = try #require(made.json()["id"]?.string, "\(made.errors)")
        // A process that ends without closing the database leaves the log.
        let crash = """
            python3 - "$store/default/latchkey.sqlite" <<'END'
            import os, sqlite3, sys
            database = sqlite3.connect(sys.argv[1])
            database.execute("INSERT INTO anchor VALUES ('a crash', x'00')")
            database.commit()
            os._exit(0)
            END
            [ -s "$store/default/latchkey.sqlite-wal" ]; echo "log $?"

            """
        let readOnly = """
            mount --bind "$XDG_DATA_HOME" "$XDG_DATA_HOME"
            mount -o remount,ro,bind "$XDG_DATA_HOME"

            """
        // Without these capabilities, the modes of files apply to root too.
        let mode = """
            chmod -R u-w "$store" && trap 'chmod -R u+w "$store"; rm "$out"' EXIT
            user="setpriv --bounding-set -dac_override,-dac_read_search"

            """
        let found = try await reports(
            machine,
            """
            set -u
            user= id=\(id) store="$XDG_DATA_HOME/latchkey"
            run() {
                name=$1 expected=$2 input=$3; shift 3
                printf '%s' "$input" | $user '\(Products.latchkey)' "$@" >"$out" 2>&1
                status=$?
                [ "$status" = "$expected" ] || { echo "$name $status"; cat "$out" >&2; }
                [ "$status" = 0 ] || grep -q 'store cannot be written' "$out" || echo "$name 99"
            }
            out=$(mktemp) && trap 'rm "$out"' EXIT

            """ + (obstacle == .fileSystemAfterCrash ? crash : "")
                + (obstacle == .mode ? mode : readOnly) + Self.reading + Self.writing)
        let expected = obstacle == .fileSystemAfterCrash ? [Report(name: "log", status: 0)] : []
        #expect(found == expected)
        #expect(
            try await machine.run("vault", "show", "plain").output == "bystander",
            "nothing is lost")
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
